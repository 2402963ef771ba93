// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// cluster has objects, instances of all of its CRDs, and answers to dry runs.
type cluster struct {
	objects   []*unstructured.Unstructured
	instance  string
	rejection error
	creates   bool // objects with other immutable fields
	dryRuns   int
	listed    []*unstructured.Unstructured // the objects of any kind
	listing   error
}

func (c *cluster) Read(_ context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	at := slices.IndexFunc(c.objects, func(o *unstructured.Unstructured) bool { return object.IdentityOf(o) == object.IdentityOf(like) })
	if at < 0 {
		return nil, nil
	}
	return c.objects[at], nil
}

func (c *cluster) Creates(context.Context, *unstructured.Unstructured) bool { return false }

func (c *cluster) Apply(context.Context, *unstructured.Unstructured) error {
	c.dryRuns++
	return c.rejection
}

func (c *cluster) Merge(ctx context.Context, desired *unstructured.Unstructured, _ []byte) error {
	return c.Apply(ctx, desired)
}

func (c *cluster) Create(context.Context, *unstructured.Unstructured) error {
	if c.creates {
		return nil
	}
	return c.rejection
}

func (c *cluster) Instance(context.Context, *unstructured.Unstructured) (string, error) {
	return c.instance, nil
}

func (c *cluster) All(context.Context, schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	return c.listed, c.listing
}

// decode reads an object; labels is written into its metadata.
func read(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// ours is the metadata of an object that a version controls.
const ours = `annotations: {capi-operator.openshift.io/owners: '[{"apiVersion":"v1","kind":"ConfigMap","namespace":"openshift-cluster-api-operator","name":"1.0.0-1","uid":"revision-1.0.0-1","controller":true}]'}`

func deployment(labels, app string) string {
	return fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: capa, namespace: providers, %s}, spec: {selector: {matchLabels: {app: %s}}}}", labels, app)
}

// machine is an instance of Cluster API.
func machine(labels, app string) string {
	return strings.NewReplacer("apps/v1", "infrastructure.cluster.x-k8s.io/v1beta2", "kind: Deployment", "kind: AWSMachine").Replace(deployment(labels, app))
}

// crd is a CRD with versions, each "name", "name,storage" or "name,unserved", and the properties of their schemas.
func crd(labels, properties string, versions ...string) string {
	var all []string
	for _, version := range versions {
		name, kind, _ := strings.Cut(version, ",")
		all = append(all, fmt.Sprintf("{name: %s, served: %t, storage: %t, schema: {openAPIV3Schema: {type: object, properties: %s}}}", name, kind != "unserved", kind == "storage", properties))
	}
	return fmt.Sprintf("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: xs.example.com, %s}, spec: {group: example.com, scope: Namespaced, names: {kind: X, plural: xs}, versions: [%s]}}",
		labels, strings.Join(all, ", "))
}

func TestCheck_FindingsOfObjects(t *testing.T) {
	t.Parallel()
	invalid := func(fields ...string) error {
		var causes field.ErrorList
		for _, path := range fields {
			causes = append(causes, field.Invalid(field.NewPath(path), "x", "must differ"))
		}
		return apierrors.NewInvalid(schema.GroupKind{}, "capa", causes)
	}
	immutableSelector := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "capa", field.ErrorList{field.Invalid(field.NewPath("spec", "selector"), "x", "field is immutable")})
	narrow, wide := "{mode: {type: string, enum: [a]}}", "{mode: {type: string, enum: [a, b]}}"
	for name, test := range map[string]struct {
		actual, desired, installed string
		beside                     string // another object of the release, which is unchanged
		instance                   string
		rejection                  error
		creates                    bool
		want                       []string // the effect of each finding and a part of its message
		dryRuns                    int
	}{
		"new":                                  {desired: deployment("", "a"), dryRuns: 1},
		"unchanged":                            {actual: deployment(ours, "a"), desired: deployment("", "a"), dryRuns: 1},
		"changed":                              {actual: deployment(ours, "a"), desired: deployment("", "b"), dryRuns: 1},
		"an immutable field":                   {actual: deployment(ours, "a"), desired: deployment("", "b"), rejection: immutableSelector, creates: true, want: []string{"ObjectsRefused kubectl delete deployment.apps capa -n providers"}, dryRuns: 1},
		"an immutable field of a machine":      {actual: machine(ours, "a"), desired: machine("", "b"), rejection: immutableSelector, creates: true, want: []string{"ObjectsRefused spec.selector"}, dryRuns: 1},
		"a field that is invalid in any case":  {actual: deployment(ours, "a"), desired: deployment("", "b"), rejection: immutableSelector, want: []string{"ObjectsRefused spec.selector"}, dryRuns: 1},
		"a denial":                             {actual: deployment(ours, "a"), desired: deployment("", "b"), rejection: apierrors.NewForbidden(schema.GroupResource{}, "capa", errors.New("denied")), want: []string{"ObjectsForbidden phase x: Deployment providers/capa"}, dryRuns: 1},
		"an invalid new object":                {desired: deployment("", "a"), rejection: invalid("spec.replicas"), want: []string{"ObjectsRefused spec.replicas"}, dryRuns: 1},
		"an invalid object of another size":    {desired: deployment("", "a"), rejection: apierrors.NewRequestEntityTooLargeError("too large"), want: []string{"ObjectsRefused too large"}, dryRuns: 1},
		"a namespace that does not exist":      {desired: deployment("", "a"), rejection: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "providers"), want: []string{"ObjectsRefused namespaces \"providers\" not found"}, dryRuns: 1},
		"a namespace of the release":           {desired: deployment("", "a"), beside: "{apiVersion: v1, kind: Namespace, metadata: {name: providers}}", rejection: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "providers"), want: []string{"note 1 object(s) are checked when their phase is reached"}, dryRuns: 1},
		"an instance of a kind of the release": {desired: strings.Replace(deployment("", "a"), "apiVersion: apps/v1, kind: Deployment", "apiVersion: example.com/v1, kind: X", 1), beside: crd("", "{}", "v1,storage"), rejection: invalid("spec"), want: []string{"note 1 object(s) are checked when their phase is reached"}},
		"a policy of a kind of the release":    {desired: "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {paramKind: {apiVersion: example.com/v1, kind: X}}}", beside: crd("", "{}", "v1,storage"), rejection: invalid("spec.paramKind"), want: []string{"note 1 object(s) are checked when their phase is reached"}},
		"a binding of a policy of the release": {desired: "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, paramRef: {name: x}}}", beside: "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}}", rejection: invalid("spec.paramRef"), want: []string{"note 1 object(s) are checked when their phase is reached"}},
		"a new CRD that is invalid":            {desired: crd("", "{}", "v1,storage"), rejection: invalid("spec.versions"), want: []string{"ObjectsRefused spec.versions"}, dryRuns: 1},
		"a CRD without a stored version":       {actual: crd(ours, wide, "v1,storage"), desired: crd("", narrow, "v2,storage"), rejection: invalid("status.storedVersions[0]"), want: []string{"note no longer serve v1", "note no way back"}, dryRuns: 1},
		"another owner":                        {actual: deployment("ownerReferences: [{apiVersion: v1, kind: Namespace, name: them, uid: u, controller: true}]", "a"), desired: deployment("", "a"), want: []string{"Collision (owned by Namespace them: Deployment providers/capa); to have it adopt all of them: kubectl annotate"}},
		"another owner who allows it":          {actual: deployment("annotations: {"+v1alpha1.AdoptAnnotation+": "+v1alpha1.AdoptAlways+"}", "a"), desired: deployment("", "a"), dryRuns: 1},
		"another owner who allows a change":    {actual: deployment("annotations: {"+v1alpha1.AdoptAnnotation+": "+v1alpha1.AdoptAlways+"}", "a"), desired: deployment("", "b"), dryRuns: 1},
		"another owner, and a manifest":        {actual: deployment("", "a"), desired: deployment("annotations: {"+v1alpha1.AdoptAnnotation+": "+v1alpha1.AdoptAlways+"}", "a"), dryRuns: 1},
		"a breaking change":                    {actual: crd(ours, wide, "v1,storage"), desired: crd("", narrow, "v1,storage"), instance: "it has instances", want: []string{"RiskNotAccepted BreakingCRDChange: CustomResourceDefinition xs.example.com: v1 mode: fewer values are allowed"}, dryRuns: 1},
		"a breaking change without instances":  {actual: crd(ours, wide, "v1,storage"), desired: crd("", narrow, "v1,storage"), dryRuns: 1},
		"a return to the installed version":    {actual: crd(ours, wide, "v1,storage"), desired: crd("", narrow, "v1,storage"), installed: crd("", narrow, "v1,storage"), instance: "it has instances", dryRuns: 1},
		"a return, and another CA":             {actual: crd(ours, wide, "v1,storage"), desired: crd("", narrow, "v1,storage"), installed: strings.Replace(crd("", narrow, "v1,storage"), "scope:", "conversion: {strategy: None}, scope:", 1), instance: "it has instances", dryRuns: 1},
		"an unserved version that is removed":  {actual: crd(ours, wide, "v1,unserved", "v2,storage"), desired: crd("", wide, "v2,storage"), dryRuns: 1},
		"a compatible change":                  {actual: crd(ours, narrow, "v1,storage"), desired: crd("", wide, "v1,storage"), instance: "it has instances", dryRuns: 1},
		"a new storage version":                {actual: crd(ours, wide, "v1,storage"), desired: crd("", wide, "v1", "v2,storage"), instance: "it has instances", want: []string{"note 1 CRD(s) switch to v2, which the installed release lacks, when the new pods are ready: from then on the way back stores their instances in v1 again"}, dryRuns: 1},
		"no way back":                          {actual: crd(ours, wide, "v1,storage"), desired: crd("", wide, "v1,unserved", "v2,storage"), instance: "it has instances", want: []string{"note 1 CRD(s) no longer serve v1: clients that use it get 404", "note 1 CRD(s) switch to v2 when the new pods are ready, and no longer serve v1: from then on no way back"}, dryRuns: 1},
		"a lacking storage version":            {actual: crd(ours, wide, "v1,storage"), desired: crd("", wide, "v2,storage"), instance: "it has instances", want: []string{"ObjectsRefused the release lacks version v1, in which instances are stored", "note no longer serve v1", "note no way back"}, dryRuns: 1},
		"another scope":                        {actual: crd(ours, wide, "v1,storage"), desired: strings.Replace(crd("", wide, "v1,storage"), "Namespaced", "Cluster", 1), rejection: invalid("spec.scope"), creates: true, want: []string{"ObjectsRefused install a release without this CRD first"}, dryRuns: 1},
		"the way back":                         {actual: crd(ours, wide, "v1", "v2,storage"), desired: crd("", wide, "v1,storage"), instance: "it has instances", want: []string{"note no longer serve v2"}, dryRuns: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{instance: test.instance, rejection: test.rejection, creates: test.creates}
			if test.actual != "" {
				c.objects = append(c.objects, read(t, test.actual))
			}
			release := Release{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Version: "1.0.0", Phases: []revision.Phase{{Name: "x", Objects: []*unstructured.Unstructured{read(t, test.desired)}}}}
			if test.beside != "" {
				release.Unchanged = []revision.Phase{{Objects: []*unstructured.Unstructured{read(t, test.beside)}}}
			}
			if test.installed != "" {
				release.InstalledObjects = revision.ByIdentity([]revision.Phase{{Objects: []*unstructured.Unstructured{read(t, test.installed)}}})
			}
			found, _, err := Check(t.Context(), c, release)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != len(test.want) || c.dryRuns != test.dryRuns {
				t.Fatalf("findings %+v and %d dry runs, want %q and %d", found, c.dryRuns, test.want, test.dryRuns)
			}
			for i, want := range test.want {
				effect, part, _ := strings.Cut(want, " ")
				risk, message, isRisk := strings.Cut(part, ": ")
				if effect != "RiskNotAccepted" || !isRisk {
					risk, message = "", part
				}
				if deletes := strings.Contains(message, "kubectl delete"); deletes != (found[i].Deletes.Name != "") || !deletes && strings.Contains(found[i].Message, "kubectl delete") {
					t.Errorf("finding %+v deletes %q", found[i], found[i].Deletes)
				}
				if blocks := effect != "note"; found[i].Blocks() != blocks || blocks && string(found[i].Reason) != effect || string(found[i].Risk) != risk || !strings.Contains(found[i].Message, message) {
					t.Errorf("finding %+v, want %q", found[i], want)
				}
			}
		})
	}
}

// An object that the installer may adopt is no collision.
func TestCheck_Adoptable(t *testing.T) {
	t.Parallel()
	for _, may := range []bool{true, false} {
		release := Release{Version: "1.0.0", Adoptable: func(*unstructured.Unstructured) bool { return may }, Phases: []revision.Phase{{Objects: []*unstructured.Unstructured{read(t, deployment("", "a"))}}}}
		found, _, err := Check(t.Context(), &cluster{objects: []*unstructured.Unstructured{read(t, deployment("", "a"))}}, release)
		if err != nil || (len(found) == 0) != may {
			t.Errorf("adoptable %t: %+v, %v", may, found, err)
		}
	}
}

// A risk is accepted for one release.
func TestCheck_AcceptedRisks(t *testing.T) {
	t.Parallel()
	c := &cluster{instance: "it has instances", objects: []*unstructured.Unstructured{read(t, crd(ours, "{a: {type: string}}", "v1,storage"))}}
	for release, blocks := range map[string]bool{"1.0.0": false, "1.0.1": true} {
		found, _, err := Check(t.Context(), c, Release{Namespace: v1alpha1.OpenShiftNamespaces.Operator,
			Version: release, Accepted: []v1alpha1.AcceptedRisk{{Name: v1alpha1.BreakingCRDChange, Release: "1.0.0"}},
			Phases: []revision.Phase{{Name: "x", Objects: []*unstructured.Unstructured{read(t, crd("", "{}", "v1,storage"))}}},
		})
		if err != nil || len(found) != 1 || found[0].Blocks() != blocks || (len(Notes(found)) == 1) == blocks {
			t.Errorf("release %s: findings %+v, error %v, want one that blocks: %t", release, found, err, blocks)
		}
	}
}

// An answer that says nothing about the object is an error: the release is judged again.
func TestCheck_TransientAnswer(t *testing.T) {
	t.Parallel()
	for _, answer := range []error{
		apierrors.NewInternalError(errors.New("failed calling webhook")), apierrors.NewServiceUnavailable("etcd"), apierrors.NewTooManyRequests("later", 1),
		apierrors.NewConflict(schema.GroupResource{}, "capa", errors.New("changed")), context.DeadlineExceeded, errors.New("discovery failed"),
	} {
		release := Release{Version: "1.0.0", Phases: []revision.Phase{{Objects: []*unstructured.Unstructured{read(t, deployment("", "a"))}}}}
		if found, _, err := Check(t.Context(), &cluster{rejection: answer}, release); !errors.Is(err, answer) || found != nil {
			t.Errorf("%v: findings %+v, error %v", answer, found, err)
		}
	}
}

// Module test/clusterctl compares the same upgrades with clusterctl's own code.
func TestVersions_SkippedMinors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, name, from, to string
		risk                 bool
	}{
		"three minors":                        {"core", "cluster-api", "v1.10.0", "v1.13.9", false},
		"four minors":                         {"core", "cluster-api", "v1.10.0", "v1.14.0", true},
		"four minors of a provider by others": {"infrastructure", "aws", "v2.0.0", "v2.9.0", false},
		"kubeadm":                             {"bootstrap", "cluster-api-bootstrap-kubeadm", "v1.11.1", "v1.15.0", true},
		"another bootstrap provider":          {"bootstrap", "rke2", "v1.11.1", "v1.15.0", false},
		"an old version":                      {"core", "cluster-api", "v1.9.9", "v1.14.0", false},
		"back":                                {"core", "cluster-api", "v1.14.0", "v1.10.0", false},
		"no version":                          {"core", "cluster-api", "", "v1.14.0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(version string) []v1alpha1.Component {
				return []v1alpha1.Component{{Name: test.name, Type: test.kind, Version: version}}
			}
			found := Release{Installed: of(test.from), Components: of(test.to)}.versions()
			if (len(found) == 1 && found[0].Risk == v1alpha1.SkippedVersions) != test.risk || !test.risk && found != nil {
				t.Errorf("findings %v, want a risk: %t", found, test.risk)
			}
		})
	}
}

// A provider is compared with itself.
func TestVersions_OfAnotherProvider(t *testing.T) {
	t.Parallel()
	kubeadm := v1alpha1.Component{Type: "bootstrap", Name: "cluster-api-bootstrap-kubeadm", Version: "v1.15.0"}
	for _, installed := range []v1alpha1.Component{
		{Type: "bootstrap", Name: "rke2", Version: "v1.10.0"}, {Type: "controlplane", Name: kubeadm.Name, Version: "v1.10.0"},
	} {
		if found := (Release{Installed: []v1alpha1.Component{installed}, Components: []v1alpha1.Component{kubeadm}}).versions(); found != nil {
			t.Errorf("after %v: %v", installed, found)
		}
	}
}

func TestVersions_UnsupportedContract(t *testing.T) {
	t.Parallel()
	crd := func(name string, labels map[string]string) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
		out.SetName(name)
		out.SetLabels(labels)
		return out
	}
	label := func(contract string) map[string]string {
		return map[string]string{"cluster.x-k8s.io/" + contract: "v1"}
	}
	for name, test := range map[string]struct {
		core, provider string
		risk           bool
	}{
		"the same contract":     {"v1beta2", "v1beta2", false},
		"the contract before":   {"v1beta2", "v1beta1", false},
		"an old contract":       {"v1beta2", "v1alpha4", true},
		"a newer contract":      {"v1beta1", "v1beta2", true},
		"a core without labels": {"", "v1alpha4", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := Release{Unchanged: []revision.Phase{{Part: revision.Part{Component: "core/cluster-api"}, Objects: []*unstructured.Unstructured{crd(capicontract.CoreCRD, label(test.core))}}},
				Phases: []revision.Phase{{Part: revision.Part{Component: "infrastructure/x"}, Objects: []*unstructured.Unstructured{
					crd("xs.example.com", label(test.provider)), crd("internal.example.com", nil),
				}}}}.versions()
			if (len(found) == 1 && found[0].Risk == v1alpha1.UnsupportedContract) != test.risk || !test.risk && found != nil {
				t.Errorf("findings %v, want a risk: %t", found, test.risk)
			}
		})
	}
}

func TestCheck_SecretOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	const service = "{apiVersion: v1, kind: Service, metadata: {name: webhook, namespace: capi, annotations: {capi-operator.openshift.io/serving-cert-secret-name: cert}}}"
	for name, test := range map[string]struct {
		secret  string // its metadata
		desired string
		want    []string
	}{
		"none":       {desired: service},
		"ours":       {secret: "labels: {capi-operator.openshift.io/serving-cert-of: webhook}", desired: service},
		"of another": {secret: "managedFields: [{manager: me}]", desired: service, want: []string{"Secret capi/cert (written by me) has the certificate of Service webhook, which the installer issues; to have it do so: kubectl delete --namespace=capi secret/cert"}},
		"of cert-manager": {secret: "annotations: {cert-manager.io/certificate-name: serving}", desired: service,
			want: []string{"Secret capi/cert (no owner) has the certificate of Service webhook, which the installer issues; to have it do so: kubectl delete --namespace=capi certificate.cert-manager.io/serving secret/cert"}},
		"a Service without certificate": {secret: "annotations: {}", desired: "{apiVersion: v1, kind: Service, metadata: {name: webhook, namespace: capi}}"},
	} {
		c := &cluster{}
		if test.secret != "" {
			c.objects = append(c.objects, read(t, "{apiVersion: v1, kind: Secret, metadata: {name: cert, namespace: capi, "+test.secret+"}}"))
		}
		found, _, err := Check(t.Context(), c, Release{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Phases: []revision.Phase{{Name: "x", Objects: []*unstructured.Unstructured{read(t, test.desired)}}}})
		var got []string
		for _, finding := range found {
			got = append(got, finding.Message)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s:\n got %q, %v\nwant %q", name, got, err, test.want)
		}
	}
}

// An object that the installer may not read, or whose kind is not served, counts as absent. Other errors stop the judgement.
func TestGuards_Read(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	for name, test := range map[string]struct {
		err    error
		failed bool
	}{
		"forbidden":   {apierrors.NewForbidden(resource, "a", nil), false},
		"not served":  {&meta.NoKindMatchError{}, false},
		"not found":   {apierrors.NewNotFound(resource, "a"), false},
		"unavailable": {apierrors.NewServiceUnavailable("down"), true},
	} {
		reader := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return test.err
			},
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return test.err
			},
		})
		found, err := (&Guards{Cache: reader, Live: reader}).Read(t.Context(), read(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"))
		if (err != nil) != test.failed || !test.failed && found != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

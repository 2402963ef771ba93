// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1alpha1 "github.com/openshift/api/apiextensions/v1alpha1"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// OperatorReconciler derives the conditions and the versions of the ClusterOperator from the ClusterAPI object. It keeps no state: a
// ClusterOperator that another client or another process has written causes a reconcile too.
type OperatorReconciler struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
}

// operatorOwner is the field manager of the OperatorReconciler.
const operatorOwner = client.FieldOwner(v1alpha1.Prefix + "/clusteroperator-status")

// Reconcile writes the ClusterOperator if it differs. Without a ClusterAPI object, the installer controller writes it.
//
// The ClusterAPI object in the cache may be outdated, and may be deleted already. So a write needs the same object in the API server, read after
// the ClusterOperator: a write from an outdated object is rejected as a conflict, even between two processes. The event about the newer object
// causes the next reconcile.
func (o *OperatorReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	cluster, now := &v1alpha1.ClusterAPI{}, &v1alpha1.ClusterAPI{}
	key := client.ObjectKey{Name: v1alpha1.ClusterAPIName}
	if err := o.Client.Get(ctx, key, cluster); err != nil || len(cluster.Status.Conditions) == 0 {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	operator, err := clusterOperator(ctx, o.Client)
	if operator == nil || err != nil {
		return reconcile.Result{}, err
	}
	status := clusterOperatorStatus(operator.Status, cluster)
	if equality.Semantic.DeepEqual(operator.Status, status) {
		return reconcile.Result{}, nil
	}
	if err := o.Live.Get(ctx, key, now); err != nil || now.ResourceVersion != cluster.ResourceVersion {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	operator.Status = status
	err = o.Client.Status().Update(ctx, operator, operatorOwner)
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, writingOperator(err)
}

func writingOperator(err error) error {
	return fmt.Errorf("writing the status of ClusterOperator %q: %w", v1alpha1.ClusterOperatorName, err)
}

// clusterOperator returns a copy of the ClusterOperator, or creates it; nil if the API does not exist, or the cache does not know the object yet.
func clusterOperator(ctx context.Context, cached client.Client) (*configv1.ClusterOperator, error) {
	operator := &configv1.ClusterOperator{}
	operator.Name = v1alpha1.ClusterOperatorName
	err := cached.Get(ctx, client.ObjectKeyFromObject(operator), operator)
	if apierrors.IsNotFound(err) {
		err = cached.Create(ctx, operator)
	}
	if apierrors.IsAlreadyExists(err) { // another process was faster
		err = cached.Get(ctx, client.ObjectKeyFromObject(operator), operator)
	}
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ClusterOperator %q: %w", v1alpha1.ClusterOperatorName, err)
	}
	return operator, nil
}

// clusterOperatorStatus returns the status of the ClusterOperator for the ClusterAPI object. It does not modify the old one.
func clusterOperatorStatus(old configv1.ClusterOperatorStatus, cluster *v1alpha1.ClusterAPI) configv1.ClusterOperatorStatus {
	status := old
	status.Conditions = converted[configv1.ClusterOperatorStatusCondition](cluster.Status.Conditions)
	if cluster.Status.InstalledRelease != "" {
		status.Versions = operandVersions(cluster)
	}
	return status
}

// relate writes the related objects of the ClusterOperator. Only the installer controller knows them. It compares the object in the API server,
// unless the ClusterOperator in the cache has them and the report before had them too: the cache can be older than the last write.
func (r *Reporter) relate(ctx context.Context, related []configv1.ObjectReference) error {
	operator, err := clusterOperator(ctx, r.Client)
	if operator == nil || err != nil || slices.Equal(operator.Status.RelatedObjects, related) && slices.Equal(r.related, related) {
		return err
	}
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(operator), operator)
	if before := operator.DeepCopy(); err == nil && !slices.Equal(before.Status.RelatedObjects, related) {
		operator.Status.RelatedObjects = related
		err = r.Client.Status().Patch(ctx, operator, client.MergeFrom(before), r.Controller.fieldOwner())
	}
	if err != nil {
		return writingOperator(err)
	}
	r.related = related
	return nil
}

// operandVersions returns the release and the providers that are installed with
// it. The cluster's upgrade waits for the release.
func operandVersions(cluster *v1alpha1.ClusterAPI) []configv1.OperandVersion {
	versions := []configv1.OperandVersion{{Name: "operator", Version: cluster.Status.InstalledRelease}}
	if current := cluster.Status.Version(cluster.Status.CurrentVersion); current != nil {
		for _, component := range current.Components {
			if component.Version != "" {
				versions = append(versions, configv1.OperandVersion{Name: component.Name, Version: component.Version})
			}
		}
	}
	return versions
}

// converted returns conditions of the ClusterAPI object as conditions of the ClusterOperator, or the reverse: both have the same JSON.
func converted[To, From any](conditions []From) []To {
	out := []To{}
	encoded, err := json.Marshal(conditions)
	if err == nil {
		err = json.Unmarshal(encoded, &out)
	}
	if err != nil {
		return nil // unreachable: texts and times always have a JSON form
	}
	return out
}

// ReportWithout writes an outcome of the installer controller when the ClusterAPI
// object does not exist. It writes only to the ClusterOperator and does not create
// it.
func (r *Reporter) ReportWithout(ctx context.Context, outcome Outcome) error {
	r.Emit(ctx, &v1alpha1.ClusterAPI{}, outcome.Events...)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		operator := &configv1.ClusterOperator{}
		err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator)
		if err != nil {
			return err
		}
		before := operator.DeepCopy()
		setUninstalled(operator, outcome, r.now())
		if equality.Semantic.DeepEqual(before.Status, operator.Status) {
			return nil
		}
		return r.Client.Status().Update(ctx, operator, r.Controller.fieldOwner())
	})
	if client.IgnoreNotFound(err) == nil || meta.IsNoMatchError(err) {
		return nil
	}
	return writingOperator(err)
}

// setUninstalled sets the conditions of an outcome on the ClusterOperator, whose own
// conditions hold the transition times.
func setUninstalled(operator *configv1.ClusterOperator, outcome Outcome, at time.Time) {
	conditions := converted[metav1.Condition](operator.Status.Conditions)
	setConditions(&conditions, Conditions(Version, Outcome{Reason: reason.Uninstalled}, conditions, 0, at))
	setConditions(&conditions, Conditions(Installer, outcome, conditions, 0, at))
	setConditions(&conditions, Aggregate(&v1alpha1.ClusterAPI{}, conditions, outcome, at))
	operator.Status.Conditions = converted[configv1.ClusterOperatorStatusCondition](conditions)
	if outcome.Related != nil {
		operator.Status.RelatedObjects = outcome.Related
	}
	if outcome.Reason == reason.Uninstalled {
		operator.Status.Versions = nil
	}
}

// alwaysRelated are the objects that a support archive includes in every state, beside the namespaces of the installer and of the
// providers: the namespace of OpenShift's CRD compatibility checker, with its content; both ClusterAPI objects; and all requirements
// for CRDs, also of other operators.
var alwaysRelated = []configv1.ObjectReference{
	{Resource: "namespaces", Name: "openshift-compatibility-requirements-operator"},
	{Group: v1alpha1.Prefix, Resource: "clusterapis", Name: v1alpha1.ClusterAPIName},
	{Group: operatorv1alpha1.GroupName, Resource: "clusterapis", Name: v1alpha1.ClusterAPIName},
	{Group: apiextensionsv1alpha1.GroupName, Resource: "compatibilityrequirements"},
}

// RelatedObjects returns the objects that a support archive must include: the namespaces, alwaysRelated, every cluster-scoped object
// of the phases, and all instances of each CRD, including unmanaged CRDs.
func RelatedObjects(of v1alpha1.Namespaces, phases []revision.Phase, unmanaged []string) []configv1.ObjectReference {
	out := append([]configv1.ObjectReference{{Resource: "namespaces", Name: of.Operator}, {Resource: "namespaces", Name: of.Operand}}, alwaysRelated...)
	always := len(out)
	for _, phase := range phases {
		for _, obj := range phase.Objects {
			if obj.GetNamespace() == "" {
				out = append(out, reference(obj))
			}
			if object.IsCRD(obj) {
				out = append(out, configv1.ObjectReference{
					Group:    object.TextAt(obj.Object, "spec", "group"),
					Resource: object.TextAt(obj.Object, "spec", "names", "plural"),
				})
			}
		}
	}
	for _, name := range unmanaged {
		plural, group, _ := strings.Cut(name, ".")
		out = append(out, configv1.ObjectReference{Group: object.APIExtensionsGroup, Resource: object.CRDResource.Resource, Name: name},
			configv1.ObjectReference{Group: group, Resource: plural})
	}
	slices.SortFunc(out[always:], func(a, b configv1.ObjectReference) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(out)
}

// reference returns a reference to an object. It derives the resource from the kind in
// the way Kubernetes names its own resources.
func reference(obj *unstructured.Unstructured) configv1.ObjectReference {
	resource, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	return configv1.ObjectReference{Group: resource.Group, Resource: resource.Resource, Name: obj.GetName()}
}

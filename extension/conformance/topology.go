// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"crypto/sha256"
	_ "embed" // the example topology
	"errors"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Topology is a Cluster with the objects of its ClusterClass: the content of requests to an extension.
type Topology struct {
	cluster, class *unstructured.Unstructured
	// templates are the templates that the ClusterClass refers to, in the order of Cluster API.
	templates []template
	// crds are the definitions of templates, as far as they are known.
	crds map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition
}

// template is a template, and the object of the Cluster that it is for.
type template struct {
	uid    string
	object map[string]any
	holder map[string]any
	// builtin are the variables of Cluster API for this template.
	builtin map[string]any
}

//go:embed topology.yaml
var exampleTopology []byte

// ExampleTopology returns a Cluster with the templates of kubeadm and of Cluster API's in-memory and Docker providers.
var ExampleTopology = sync.OnceValue(func() *Topology {
	t, err := ReadTopology(exampleTopology)
	if err != nil {
		panic(err) // a file of the program
	}
	return t
})

// ReadTopology reads a YAML stream with a Cluster, its ClusterClass, the templates, and optionally the CRDs of
// the templates. Other objects are ignored.
func ReadTopology(stream []byte) (*Topology, error) {
	t := &Topology{crds: map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{}}
	objects := map[string]*unstructured.Unstructured{}
	stream, err := yamldoc.ToUTF8(stream)
	if err != nil {
		return nil, err
	}
	for _, document := range yamldoc.SplitNonEmpty(stream) {
		parsed, err := document.Parse(document.Text)
		for _, content := range parsed {
			o := &unstructured.Unstructured{Object: content}
			err = errors.Join(err, t.add(o))
			objects[o.GetKind()+" "+o.GetName()] = o
		}
		if err != nil {
			return nil, fmt.Errorf("reading the object in line %d: %w", document.Start, err)
		}
	}
	if t.cluster == nil || t.class == nil {
		return nil, errors.New("a Cluster with spec.topology and its ClusterClass are required")
	}
	return t, t.addTemplates(objects)
}

func (t *Topology) add(o *unstructured.Unstructured) error {
	switch kind := o.GroupVersionKind(); {
	case kind.Group == coreGroup && kind.Kind == "Cluster":
		t.cluster = o
	case kind.Group == coreGroup && kind.Kind == "ClusterClass":
		t.class = o
	case object.IsCRD(o):
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, crd); err != nil {
			return err
		}
		t.crds[object.DefinedKind(o)] = crd
	}
	return nil
}

const coreGroup = "cluster.x-k8s.io"

// addTemplates finds the templates of the ClusterClass, in v1beta1 or v1beta2.
func (t *Topology) addTemplates(objects map[string]*unstructured.Unstructured) error {
	controlPlane := t.holder("KubeadmControlPlane", t.cluster.GetName(), "spec.machineTemplate.infrastructureRef")
	if reference := templateReference(t.class.Object, "spec", "controlPlane"); reference != nil {
		controlPlane["kind"], controlPlane["apiVersion"] = withoutTemplate(object.TextAt(reference, "kind")), object.TextAt(reference, "apiVersion")
	}
	cluster := func(field string) map[string]any {
		holder := t.holder("Cluster", t.cluster.GetName(), field)
		holder["apiVersion"] = t.cluster.GetAPIVersion()
		return holder
	}
	builtin := map[string]any{"controlPlane": t.controlPlaneBuiltin()}
	errs := []error{
		t.addTemplate(objects, cluster("spec.infrastructureRef"), map[string]any{}, "spec", "infrastructure"),
		t.addTemplate(objects, cluster("spec.controlPlaneRef"), builtin, "spec", "controlPlane"),
		t.addTemplate(objects, controlPlane, builtin, "spec", "controlPlane", "machineInfrastructure"),
	}
	for _, kind := range []string{"MachineDeployment", machinePool} {
		for _, workers := range object.MapsAt(t.cluster.Object, "spec", "topology", "workers", fieldOf(kind)+"s") {
			errs = append(errs, t.addWorkers(objects, kind, workers))
		}
	}
	return errors.Join(errs...)
}

const machinePool = "MachinePool"

// fieldOf returns the name of a kind as the name of a field.
func fieldOf(kind string) string { return strings.ToLower(kind[:1]) + kind[1:] }

// addWorkers adds the templates of a MachineDeployment or MachinePool of the topology.
func (t *Topology) addWorkers(objects map[string]*unstructured.Unstructured, kind string, workers map[string]any) error {
	name := t.cluster.GetName() + "-" + object.TextAt(workers, "name")
	builtin := map[string]any{fieldOf(kind): map[string]any{
		"version": t.version(), "class": workers["class"], "name": name, "topologyName": workers["name"], "replicas": workers["replicas"],
	}}
	for _, class := range object.MapsAt(t.class.Object, "spec", "workers", fieldOf(kind)+"s") {
		if class["class"] != workers["class"] {
			continue
		}
		if v1beta1 := object.MapAt(class, "template"); v1beta1 != nil {
			class = v1beta1
		}
		return errors.Join(
			t.addTemplateOf(objects, templateReference(class, "bootstrap"), t.holder(kind, name, "spec.template.spec.bootstrap.configRef"), builtin),
			t.addTemplateOf(objects, templateReference(class, "infrastructure"), t.holder(kind, name, "spec.template.spec.infrastructureRef"), builtin))
	}
	return fmt.Errorf("%s class %v not found in ClusterClass %s", kind, workers["class"], t.class.GetName())
}

func (t *Topology) addTemplate(objects map[string]*unstructured.Unstructured, holder, builtin map[string]any, path ...string) error {
	return t.addTemplateOf(objects, templateReference(t.class.Object, path...), holder, builtin)
}

// addTemplateOf adds the template of a reference; none if the ClusterClass has no such reference.
func (t *Topology) addTemplateOf(objects map[string]*unstructured.Unstructured, reference, holder, builtin map[string]any) error {
	if reference == nil {
		return nil
	}
	o := objects[object.TextAt(reference, "kind")+" "+object.TextAt(reference, "name")]
	if o == nil {
		return fmt.Errorf("%s %s of ClusterClass %s not found", object.TextAt(reference, "kind"), object.TextAt(reference, "name"), t.class.GetName())
	}
	id := fmt.Sprintf("%s/%v/%v/%v", o.GetName(), holder["kind"], holder["name"], holder["fieldPath"])
	t.templates = append(t.templates, template{uid: uidOf(id), object: o.Object, holder: holder, builtin: builtin})
	return nil
}

// uidOf returns a UUID that is always the same for a name.
func uidOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// templateReference returns a reference of a ClusterClass: templateRef, or ref in v1beta1.
func templateReference(parent map[string]any, path ...string) map[string]any {
	parent = object.MapAt(parent, path...)
	if reference := object.MapAt(parent, "templateRef"); reference != nil {
		return reference
	}
	return object.MapAt(parent, "ref")
}

func (t *Topology) holder(kind, name, field string) map[string]any {
	return map[string]any{"apiVersion": coreGroup + "/v1beta2", "kind": kind, "namespace": t.cluster.GetNamespace(), "name": name, "fieldPath": field}
}

func (t *Topology) version() string {
	return object.TextAt(t.cluster.Object, "spec", "topology", "version")
}

func (t *Topology) controlPlaneBuiltin() map[string]any {
	builtin := map[string]any{"version": t.version(), "name": t.cluster.GetName()}
	if replicas := object.MapAt(t.cluster.Object, "spec", "topology", "controlPlane")["replicas"]; replicas != nil {
		builtin["replicas"] = replicas
	}
	return builtin
}

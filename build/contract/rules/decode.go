// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1" //nolint:staticcheck // templates still have this version
	addonsv1beta2 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1" //nolint:staticcheck // templates still have this version
	bootstrapv1beta2 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1" //nolint:staticcheck // templates still have this version
	controlplanev1beta2 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	corev1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // templates still have this version
	corev1beta2 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	strictjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// checkDecodes decodes an object of a kind of Kubernetes into its Go type, as strictly as the API server. Objects with
// a variable without default are skipped.
func checkDecodes(o *contract.Object) (findings []contract.Finding) {
	into := typeFor(o)
	if into == nil {
		return nil
	}
	data, err := o.JSON()
	if err != nil || variable.Contains(data) {
		return nil // not valid, as another rule reports, or not known
	}
	return decodeStrictly(o, data, into)
}

// decodeStrictly decodes an object as the API server does with strict validation of fields.
func decodeStrictly(o *contract.Object, data []byte, into any) (findings []contract.Finding) {
	unknown, err := strictjson.UnmarshalStrict(data, into)
	for _, problem := range unknown {
		findings = append(findings, o.Finding("%v", problem))
	}
	if err != nil {
		findings = append(findings, o.Finding("%v", err))
	}
	return findings
}

// typeFor returns an empty object of a kind of Kubernetes; nil for any other.
func typeFor(o *contract.Object) any {
	gv, err := schema.ParseGroupVersion(o.At("apiVersion").Text())
	if err != nil {
		return nil
	}
	if gv == apiextensionsv1.SchemeGroupVersion && o.Kind == object.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{}
	}
	var typed runtime.Object
	if typed, err = scheme.Scheme.New(gv.WithKind(o.Kind.Kind)); err != nil {
		return nil
	}
	return typed
}

// decoded returns an object as clusterctl and the API server decode it, with YAML 1.1.
func decoded(o *contract.Object) (object map[string]any, err error) {
	text, err := yaml.Marshal(o.Node)
	if err != nil {
		return nil, fmt.Errorf("printing %s: %w", o, err)
	}
	data, err := sigsyaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("decoding %s: %w", o, err)
	}
	err = utiljson.Unmarshal(data, &object)
	return object, err
}

// checkDecodesUnlessUnknown decodes an object of a template of a kind of Kubernetes or Cluster API into its Go type, without its unknown
// values.
func checkDecodesUnlessUnknown(o *contract.Object) []contract.Finding {
	into := cmp.Or(typeFor(o), clusterAPITypeFor(o))
	object, err := decoded(o)
	if into == nil || err != nil {
		return nil
	}
	data, err := json.Marshal(known(object))
	if err != nil {
		return nil
	}
	return decodeStrictly(o, data, into)
}

// clusterAPITypeFor returns an empty object of a kind of Cluster API; nil for any other.
func clusterAPITypeFor(o *contract.Object) any {
	gv, err := schema.ParseGroupVersion(o.At("apiVersion").Text())
	if err != nil {
		return nil
	}
	typed, err := clusterAPITypes().New(gv.WithKind(o.Kind.Kind))
	if err != nil {
		return nil
	}
	return typed
}

// clusterAPITypes are the types of the kinds of Cluster API that templates contain.
var clusterAPITypes = sync.OnceValue(func() *runtime.Scheme {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1beta1.AddToScheme, corev1beta2.AddToScheme, bootstrapv1beta1.AddToScheme, bootstrapv1beta2.AddToScheme,
		controlplanev1beta1.AddToScheme, controlplanev1beta2.AddToScheme, addonsv1beta1.AddToScheme, addonsv1beta2.AddToScheme,
	} {
		utilruntime.Must(add(types))
	}
	return types
})

// known returns a decoded value without the unknown values in it: items of lists are null, fields are omitted.
func known(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if value[key] = known(field); isUnknownPath(key) || field != nil && value[key] == nil {
				delete(value, key)
			}
		}
	case []any:
		for i, item := range value {
			value[i] = known(item)
		}
	case string:
		if isUnknownPath(value) {
			return nil
		}
	}
	return value
}

// SPDX-License-Identifier: Apache-2.0

// Package clusterapi judges objects of Cluster API's own kinds with the code of its webhooks, in the version that go.mod names. Its CRDs, and the CRDs of
// cert-manager, which clusterctl installs, have the schemas.
package clusterapi

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1" //nolint:staticcheck // templates still have this version
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1" //nolint:staticcheck // templates still have this version
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1" //nolint:staticcheck // templates still have this version
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	corev1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // templates still have this version
	corev1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1alpha1 "sigs.k8s.io/cluster-api/api/runtime/v1alpha1" //nolint:staticcheck // templates still have this version
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	bootstrapwebhooks "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/admission"
	bootstrapconversion "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/conversion"
	controlplanewebhooks "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	controlplaneconversion "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	corewebhooks "sigs.k8s.io/cluster-api/core/webhooks/admission"
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// CRDs are the CRDs of Cluster API and cert-manager without descriptions, as a stream of YAML documents.
//
//go:embed crds.yaml
var CRDs []byte

//go:generate env UPDATE=1 go test -run TestCRDs_UpToDate .

// Types are the types of the kinds of Cluster API.
var Types = func() *runtime.Scheme {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1beta1.AddToScheme, corev1.AddToScheme, bootstrapv1beta1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1beta1.AddToScheme,
		controlplanev1.AddToScheme, addonsv1beta1.AddToScheme, addonsv1.AddToScheme, runtimev1alpha1.AddToScheme, runtimev1.AddToScheme,
	} {
		utilruntime.Must(add(types))
	}
	return types
}()

// webhook is the code of the webhooks of a kind. setDefaults is nil for a kind without defaults.
type webhook struct {
	converter             conversion.Converter
	setDefaults, validate func(context.Context, runtime.Object) error
}

// of returns the webhooks of a kind.
func of[T runtime.Object](newConverter func(*runtime.Scheme) (conversion.Converter, error), validator admission.Validator[T]) webhook {
	converter, err := newConverter(Types)
	utilruntime.Must(err)
	hooks := webhook{converter: converter, validate: func(ctx context.Context, object runtime.Object) error {
		_, err := validator.ValidateCreate(ctx, object.(T))
		return err
	}}
	if defaulter, has := validator.(admission.Defaulter[T]); has {
		hooks.setDefaults = func(ctx context.Context, object runtime.Object) error { return defaulter.Default(ctx, object.(T)) }
	}
	return hooks
}

var webhooks = map[string]webhook{
	"Cluster":                     of[*corev1.Cluster](coreconversion.Cluster, &corewebhooks.Cluster{Client: classReader{}}),
	"ClusterClass":                of[*corev1.ClusterClass](coreconversion.ClusterClass, &corewebhooks.ClusterClass{}),
	"ClusterResourceSet":          of[*addonsv1.ClusterResourceSet](coreconversion.ClusterResourceSet, &corewebhooks.ClusterResourceSet{}),
	"ExtensionConfig":             of[*runtimev1.ExtensionConfig](coreconversion.ExtensionConfig, &corewebhooks.ExtensionConfig{}),
	"Machine":                     of[*corev1.Machine](coreconversion.Machine, &corewebhooks.Machine{}),
	"MachineDeployment":           of[*corev1.MachineDeployment](coreconversion.MachineDeployment, &corewebhooks.MachineDeployment{}),
	"MachineDrainRule":            of[*corev1.MachineDrainRule](coreconversion.MachineDrainRule, &corewebhooks.MachineDrainRule{}),
	"MachineHealthCheck":          of[*corev1.MachineHealthCheck](coreconversion.MachineHealthCheck, &corewebhooks.MachineHealthCheck{}),
	"MachinePool":                 of[*corev1.MachinePool](coreconversion.MachinePool, &corewebhooks.MachinePool{}),
	"MachineSet":                  of[*corev1.MachineSet](coreconversion.MachineSet, &corewebhooks.MachineSet{}),
	"KubeadmConfig":               of[*bootstrapv1.KubeadmConfig](bootstrapconversion.KubeadmConfig, &bootstrapwebhooks.KubeadmConfig{}),
	"KubeadmConfigTemplate":       of[*bootstrapv1.KubeadmConfigTemplate](bootstrapconversion.KubeadmConfigTemplate, &bootstrapwebhooks.KubeadmConfigTemplate{}),
	"KubeadmControlPlane":         of[*controlplanev1.KubeadmControlPlane](controlplaneconversion.KubeadmControlPlane, &controlplanewebhooks.KubeadmControlPlane{}),
	"KubeadmControlPlaneTemplate": of[*controlplanev1.KubeadmControlPlaneTemplate](controlplaneconversion.KubeadmControlPlaneTemplate, &controlplanewebhooks.KubeadmControlPlaneTemplate{}),
}

// configure enables every feature, because the features of a cluster are unknown, and gives references any version, because the webhooks
// do not read it.
var configure = sync.OnceFunc(func() {
	utilruntime.Must(feature.MutableGates.Set("AllAlpha=true,AllBeta=true"))
	anyVersion := func(_ context.Context, kind schema.GroupKind) (string, error) {
		return kind.WithVersion(corev1.GroupVersion.Version).GroupVersion().String(), nil
	}
	coreconversion.SetAPIVersionGetter(anyVersion)
	controlplaneconversion.SetAPIVersionGetter(anyVersion)
})

// Create returns the reasons for which the webhooks reject the creation of an object, given as JSON. Their fields are of the newest
// version of the kind. Kinds without webhooks, and objects that cannot be decoded, have no reasons. class is the ClusterClass of a
// Cluster, as JSON too; it may be nil. An object is validated also if setting its defaults fails, which can be because of a placeholder.
func Create(object, class []byte) (causes []metav1.StatusCause) {
	hooks, _, newest, err := decode(object)
	if err != nil {
		return nil
	}
	ctx := creation(class)
	if hooks.setDefaults != nil {
		err = hooks.setDefaults(ctx, newest)
	}
	for _, rejection := range []error{err, hooks.validate(ctx, newest)} {
		if status, is := errors.AsType[*apierrors.StatusError](rejection); is && status.Status().Details != nil {
			causes = append(causes, status.Status().Details.Causes...)
		}
	}
	return causes
}

// Complete returns an object, given as JSON, as the webhooks leave it before the API server validates it: with their defaults, and with the
// empty fields that encoding in Go adds. It returns nil for an object that they leave as it is, and for an object that cannot be decoded. class
// is as for Create.
func Complete(object, class []byte) map[string]any {
	hooks, given, newest, err := decode(object)
	if err != nil || hooks.setDefaults == nil {
		return nil
	}
	ctx, before := creation(class), newest.DeepCopyObject()
	_ = hooks.setDefaults(ctx, newest) // Create returns the reason
	if reflect.DeepEqual(before, newest) || given != newest && hooks.converter.ConvertObject(ctx, newest, given) != nil {
		return nil
	}
	completed, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(given)
	return completed
}

// classKey is the key of the ClusterClass in the context of a webhook.
type classKey struct{}

// creation returns the context of a webhook that is called when an object is created. The webhook of Cluster does not wait for the
// ClusterClass in it.
func creation(class []byte) context.Context {
	configure()
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), classKey{}, class))
	cancel()
	return admission.NewContextWithRequest(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}})
}

// decode returns an object, the object in the newest version of its kind, and the webhooks of the kind.
func decode(content []byte) (hooks webhook, object, newest runtime.Object, err error) {
	var header metav1.TypeMeta
	if err := json.Unmarshal(content, &header); err != nil {
		return hooks, nil, nil, err
	}
	kind := header.GroupVersionKind()
	hub := kind.GroupKind().WithVersion(corev1.GroupVersion.Version)
	object, errKind := Types.New(kind)
	newest, errHub := Types.New(hub)
	hooks, known := webhooks[kind.Kind]
	if err := errors.Join(errKind, errHub); err != nil || !known {
		return hooks, nil, nil, cmp.Or(err, errors.ErrUnsupported)
	}
	if err := json.Unmarshal(content, object); err != nil || kind == hub {
		return hooks, object, object, err
	}
	newest.GetObjectKind().SetGroupVersionKind(hub)
	return hooks, object, newest, hooks.converter.ConvertObject(context.Background(), object, newest)
}

// classReader reads the ClusterClass of a Cluster from the context.
type classReader struct{ client.Reader }

// Get implements client.Reader. The ClusterClass has the status that Cluster API's controller writes. An extension can define more
// variables; the controller has not called it yet.
func (classReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	content, _ := ctx.Value(classKey{}).([]byte)
	_, _, decoded, err := decode(content)
	class, is := decoded.(*corev1.ClusterClass)
	if err != nil || !is {
		return apierrors.NewNotFound(corev1.GroupVersion.WithResource("clusterclasses").GroupResource(), key.Name)
	}
	isExternal := func(patch corev1.ClusterClassPatch) bool { return patch.External != nil }
	if !slices.ContainsFunc(class.Spec.Patches, isExternal) {
		class.Status.Conditions = []metav1.Condition{{Type: corev1.ClusterClassVariablesReadyCondition, Status: metav1.ConditionTrue}}
	}
	for _, variable := range class.Spec.Variables {
		class.Status.Variables = append(class.Status.Variables, corev1.ClusterClassStatusVariable{Name: variable.Name, Definitions: []corev1.ClusterClassStatusVariableDefinition{{
			From: corev1.VariableDefinitionFromInline, Required: variable.Required, Schema: variable.Schema,
		}}})
	}
	class.DeepCopyInto(into.(*corev1.ClusterClass))
	return nil
}

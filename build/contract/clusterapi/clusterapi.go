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
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// types are the types of the kinds of Cluster API.
var types = func() *runtime.Scheme {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1beta1.AddToScheme, corev1.AddToScheme, bootstrapv1beta1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1beta1.AddToScheme,
		controlplanev1.AddToScheme, addonsv1beta1.AddToScheme, addonsv1.AddToScheme, runtimev1alpha1.AddToScheme, runtimev1.AddToScheme,
	} {
		utilruntime.Must(add(types))
	}
	return types
}()

// webhook is the code of the webhooks of a kind.
type webhook struct {
	converter func(*runtime.Scheme) (conversion.Converter, error)
	create    func(context.Context, client.Reader, runtime.Object) error
}

// of returns the webhooks of a kind.
func of[T runtime.Object](converter func(*runtime.Scheme) (conversion.Converter, error), validator func(client.Reader) admission.Validator[T]) webhook {
	return webhook{converter, func(ctx context.Context, classes client.Reader, object runtime.Object) error {
		validator, typed := validator(classes), object.(T)
		if defaulter, has := validator.(admission.Defaulter[T]); has {
			if err := defaulter.Default(ctx, typed); err != nil {
				return err
			}
		}
		_, err := validator.ValidateCreate(ctx, typed)
		return err
	}}
}

// alone returns webhooks that read no other objects.
func alone[T runtime.Object](validator admission.Validator[T]) func(client.Reader) admission.Validator[T] {
	return func(client.Reader) admission.Validator[T] { return validator }
}

var webhooks = map[string]webhook{
	"Cluster": of(coreconversion.Cluster, func(classes client.Reader) admission.Validator[*corev1.Cluster] {
		return &corewebhooks.Cluster{Client: classes}
	}),
	"ClusterClass":                of(coreconversion.ClusterClass, alone[*corev1.ClusterClass](&corewebhooks.ClusterClass{})),
	"ClusterResourceSet":          of(coreconversion.ClusterResourceSet, alone[*addonsv1.ClusterResourceSet](&corewebhooks.ClusterResourceSet{})),
	"ExtensionConfig":             of(coreconversion.ExtensionConfig, alone[*runtimev1.ExtensionConfig](&corewebhooks.ExtensionConfig{})),
	"Machine":                     of(coreconversion.Machine, alone[*corev1.Machine](&corewebhooks.Machine{})),
	"MachineDeployment":           of(coreconversion.MachineDeployment, alone[*corev1.MachineDeployment](&corewebhooks.MachineDeployment{})),
	"MachineDrainRule":            of(coreconversion.MachineDrainRule, alone[*corev1.MachineDrainRule](&corewebhooks.MachineDrainRule{})),
	"MachineHealthCheck":          of(coreconversion.MachineHealthCheck, alone[*corev1.MachineHealthCheck](&corewebhooks.MachineHealthCheck{})),
	"MachinePool":                 of(coreconversion.MachinePool, alone[*corev1.MachinePool](&corewebhooks.MachinePool{})),
	"MachineSet":                  of(coreconversion.MachineSet, alone[*corev1.MachineSet](&corewebhooks.MachineSet{})),
	"KubeadmConfig":               of(bootstrapconversion.KubeadmConfig, alone[*bootstrapv1.KubeadmConfig](&bootstrapwebhooks.KubeadmConfig{})),
	"KubeadmConfigTemplate":       of(bootstrapconversion.KubeadmConfigTemplate, alone[*bootstrapv1.KubeadmConfigTemplate](&bootstrapwebhooks.KubeadmConfigTemplate{})),
	"KubeadmControlPlane":         of(controlplaneconversion.KubeadmControlPlane, alone[*controlplanev1.KubeadmControlPlane](&controlplanewebhooks.KubeadmControlPlane{})),
	"KubeadmControlPlaneTemplate": of(controlplaneconversion.KubeadmControlPlaneTemplate, alone[*controlplanev1.KubeadmControlPlaneTemplate](&controlplanewebhooks.KubeadmControlPlaneTemplate{})),
}

// enableAll enables every feature, because the features of a cluster are unknown.
var enableAll = sync.OnceFunc(func() { utilruntime.Must(feature.MutableGates.Set("AllAlpha=true,AllBeta=true")) })

// Create returns the reasons for which the webhooks reject the creation of an object, given as JSON. Their fields are of the newest
// version of the kind. Kinds without webhooks, and objects that cannot be decoded, have no reasons. class is the ClusterClass of a
// Cluster, as JSON too; it may be nil.
func Create(object, class []byte) []metav1.StatusCause {
	hooks, newest, err := decode(object)
	if err != nil {
		return nil
	}
	enableAll()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the webhook of Cluster does not wait for the ClusterClass then
	ctx = admission.NewContextWithRequest(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}})
	err = hooks.create(ctx, classReader{class: class}, newest)
	if status, is := errors.AsType[*apierrors.StatusError](err); is && status.Status().Details != nil {
		return status.Status().Details.Causes
	}
	return nil
}

// decode returns an object in the newest version of its kind, and the webhooks of the kind.
func decode(content []byte) (hooks webhook, newest runtime.Object, err error) {
	var header metav1.TypeMeta
	if err := json.Unmarshal(content, &header); err != nil {
		return hooks, nil, err
	}
	kind := header.GroupVersionKind()
	hub := kind.GroupKind().WithVersion(corev1.GroupVersion.Version)
	object, errKind := types.New(kind)
	newest, errHub := types.New(hub)
	hooks, known := webhooks[kind.Kind]
	if err := errors.Join(errKind, errHub); err != nil || !known {
		return hooks, nil, cmp.Or(err, errors.ErrUnsupported)
	}
	if err := json.Unmarshal(content, object); err != nil || kind == hub {
		return hooks, object, err
	}
	newest.GetObjectKind().SetGroupVersionKind(hub)
	converter, err := hooks.converter(types)
	if err == nil {
		err = converter.ConvertObject(context.Background(), object, newest)
	}
	return hooks, newest, err
}

// classReader reads the ClusterClass of a Cluster.
type classReader struct {
	client.Reader
	class []byte
}

// Get implements client.Reader. The ClusterClass has the status that Cluster API's controller writes. An extension can define more
// variables; the controller has not called it yet.
func (r classReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	_, decoded, err := decode(r.class)
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

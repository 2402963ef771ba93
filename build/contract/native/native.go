// SPDX-License-Identifier: Apache-2.0

// Package native judges objects of Kubernetes' own kinds with the code of the API server: its decoders, defaults and
// registry strategies, in the version that go.mod names.
package native

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install" // defaults and conversions, as of the other groups
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/resolver"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/pod-security-admission/api"
)

// unresolved is never asked, because no authorizer asks for permissions to read parameters.
var unresolved = resolver.ResourceResolverFunc(func(schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	return schema.GroupVersionResource{}, errors.ErrUnsupported
})

// allowPrivileged sets the flag --allow-privileged, which each cluster with a CNI or CSI driver sets.
var allowPrivileged = sync.OnceFunc(func() { capabilities.Setup(true, 0) })

// strategies are the strategies of the API server, by group and kind. Objects of other kinds are only decoded.
var strategies = map[string]map[string]rest.RESTCreateStrategy{
	"": {
		"ConfigMap": configmap.Strategy, "LimitRange": limitrange.Strategy, "Namespace": namespace.Strategy, "Pod": pod.Strategy,
		"PersistentVolume": persistentvolume.Strategy, "PersistentVolumeClaim": persistentvolumeclaim.Strategy, "ResourceQuota": resourcequota.Strategy,
		"Secret": secret.Strategy, "Service": service.Strategy, "ServiceAccount": serviceaccount.Strategy,
	},
	"admissionregistration.k8s.io": {
		"MutatingAdmissionPolicy":          mutatingadmissionpolicy.NewStrategy(nil, nil),
		"MutatingAdmissionPolicyBinding":   mutatingadmissionpolicybinding.NewStrategy(nil, nil, unresolved),
		"MutatingWebhookConfiguration":     mutatingwebhookconfiguration.Strategy,
		"ValidatingAdmissionPolicy":        validatingadmissionpolicy.NewStrategy(nil, nil),
		"ValidatingAdmissionPolicyBinding": validatingadmissionpolicybinding.NewStrategy(nil, nil, unresolved),
		"ValidatingWebhookConfiguration":   validatingwebhookconfiguration.Strategy,
	},
	"apps":                         {"DaemonSet": daemonset.Strategy, "Deployment": deployment.Strategy, "ReplicaSet": replicaset.Strategy, "StatefulSet": statefulset.Strategy},
	"autoscaling":                  {"HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy},
	"batch":                        {"CronJob": cronjob.Strategy, "Job": job.Strategy},
	"certificates.k8s.io":          {"CertificateSigningRequest": certificates.Strategy},
	"coordination.k8s.io":          {"Lease": lease.Strategy},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema": flowschema.Strategy, "PriorityLevelConfiguration": prioritylevelconfiguration.Strategy},
	"networking.k8s.io":            {"Ingress": ingress.Strategy, "IngressClass": ingressclass.Strategy, "NetworkPolicy": networkpolicy.Strategy},
	"node.k8s.io":                  {"RuntimeClass": runtimeclass.Strategy},
	"policy":                       {"PodDisruptionBudget": poddisruptionbudget.Strategy},
	"rbac.authorization.k8s.io": {
		"ClusterRole": clusterrole.Strategy, "ClusterRoleBinding": clusterrolebinding.Strategy, "Role": role.Strategy, "RoleBinding": rolebinding.Strategy,
	},
	"scheduling.k8s.io": {"PriorityClass": priorityclass.Strategy},
	"storage.k8s.io":    {"CSIDriver": csidriver.Strategy, "StorageClass": storageclass.Strategy},
}

// Create returns the reasons for which the API server rejects the creation of an object of a type of k8s.io/api. It changes the object.
//
// Admission plugins and webhooks, quotas and the permissions of the client are no part of the result, except the labels about pod security
// of a Namespace. The API server answers a request whose validation panics with an error; so does Create.
func Create(kind schema.GroupVersionKind, object runtime.Object) (errs field.ErrorList) {
	strategy, known := strategies[kind.Group][kind.Kind]
	if !known {
		return nil
	}
	defer func() {
		if cause := recover(); cause != nil {
			errs = field.ErrorList{field.InternalError(nil, fmt.Errorf("the validation of the API server failed: %v", cause))}
		}
	}()
	allowPrivileged()
	legacyscheme.Scheme.Default(object)
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	metadata, err := meta.Accessor(internal)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	switch {
	case !strategy.NamespaceScoped():
		metadata.SetNamespace("")
	case metadata.GetNamespace() == "":
		metadata.SetNamespace("default")
	}
	if service, is := internal.(*core.Service); is && service.Spec.ClusterIP != "" && len(service.Spec.ClusterIPs) == 0 {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP} // as the storage of Services does before the strategy
	}
	rest.FillObjectMetaSystemFields(metadata)
	ctx := genericapirequest.WithNamespace(context.Background(), metadata.GetNamespace())
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{APIGroup: kind.Group, APIVersion: kind.Version})
	strategy.PrepareForCreate(ctx, internal)
	errs = rest.ValidateCreate(ctx, internal, strategy)
	if _, is := internal.(*core.Namespace); is {
		_, invalid := api.PolicyToEvaluate(metadata.GetLabels(), api.Policy{})
		errs = append(errs, invalid...)
	}
	return errs
}

// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// ComponentSettings are the settings of one component. They are rendered into its objects, and a change makes a new version.
type ComponentSettings struct {
	// name is the name of the component, as in status.versions[].components[].name, such as cluster-api-provider-aws.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// namespace is the namespace of the component's objects; by default the one in its manifests. Objects that refer to them name it too. It must
	// be one of the namespaces in the argument --providers-namespace of the installer, which does not create it. In OpenShift it cannot be set.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace, such as capa-system"
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// variables are values for variables in the component's manifests.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	// +optional
	Variables []Variable `json:"variables,omitempty"`

	// variablesFrom refers to a Secret: each key with the name of a variable in the component's manifests is the value of this variable, unless
	// variables has it. Other keys are ignored.
	// +optional
	VariablesFrom *VariablesSource `json:"variablesFrom,omitempty"`

	// featureGates switches features that the argument --feature-gates of the component's manager names.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// deployment changes the component's Deployments.
	// +optional
	Deployment *DeploymentSettings `json:"deployment,omitempty"`

	// patches change objects of the component in the given order, after all other settings.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Patches []Patch `json:"patches,omitempty"`
}

// Variable is the value of a variable in manifests.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.valueFrom)",message="exactly one of value and valueFrom must be set"
type Variable struct {
	// name is the name of the variable, such as EXP_MACHINE_POOL for ${EXP_MACHINE_POOL}.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z_][a-zA-Z0-9_]*$')",message="must be the name of a variable: letters, digits and underscores"
	// +required
	Name string `json:"name"`
	// value is the value. It can be empty. It is stored in ConfigMaps: use valueFrom for credentials.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Value *string `json:"value,omitempty"`
	// valueFrom refers to the value. Only Secrets, and the installed objects with the variable, contain it.
	// +optional
	ValueFrom *VariableSource `json:"valueFrom,omitempty"`
}

// VariableSource refers to the value of a variable.
type VariableSource struct {
	// secretKeyRef is a key of a Secret in the operator's namespace.
	// +required
	SecretKeyRef SecretKeyReference `json:"secretKeyRef"`
}

// VariablesSource refers to the values of variables.
type VariablesSource struct {
	// secretRef is a Secret in the operator's namespace.
	// +required
	SecretRef SecretReference `json:"secretRef"`
}

// SecretReference refers to a Secret in the operator's namespace.
type SecretReference struct {
	// name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Secret"
	// +required
	Name string `json:"name"`
}

// SecretKeyReference refers to a key of a Secret in the operator's namespace.
type SecretKeyReference struct {
	// name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Secret"
	// +required
	Name string `json:"name"`
	// key is the key with the value, a text.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret"
	// +required
	Key string `json:"key"`
}

// FeatureGate switches a feature.
type FeatureGate struct {
	// name is the name of the feature gate, such as ClusterTopology.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z][a-zA-Z0-9]*$')",message="must be the name of a feature gate, such as ClusterTopology"
	// +required
	Name string `json:"name"`
	// enabled is true to switch the feature on.
	// +required
	Enabled bool `json:"enabled"`
}

// Placement restricts the nodes of pods.
type Placement struct {
	// nodeSelector are labels of nodes, in addition to those in the manifests.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations are added to those in the manifests.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// DeploymentSettings change Deployments. replicas, resources, args, env and topologySpreadConstraints require that the component has
// one Deployment.
type DeploymentSettings struct {
	Placement `json:",inline"`

	// replicas is the number of pods.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// affinity replaces the affinity in the manifests.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// topologySpreadConstraints are added to those in the manifests.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// resources are requests and limits of the manager's container. Those in the manifests that have no value here stay.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// priorityClassName is the priority class of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// args are arguments of the manager's container, such as --awscluster-concurrency=20. An argument replaces those with the same
	// flag, and is added otherwise.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^--?[a-zA-Z]')",message="must be a flag, such as --v=4"
	// +optional
	Args []string `json:"args,omitempty"`
	// env are environment variables of the manager's container. A variable replaces the one with the same name, and is added otherwise.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`
	// imagePullSecrets are names of Secrets in the component's namespace, in addition to those in the manifests.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	ImagePullSecrets []string `json:"imagePullSecrets,omitempty"`
}

// Resources are the compute resources of a container.
type Resources struct {
	// requests are the minimum of each resource.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// limits are the maximum of each resource.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// Patch changes the objects that match its target.
type Patch struct {
	// target selects objects of the component. It is an error if it selects none.
	// +required
	Target PatchTarget `json:"target"`
	// patch is YAML or JSON: a mapping is a strategic merge patch (a merge patch for kinds of CRDs), a list is a JSON patch
	// (RFC 6902). It cannot change the kind, name or namespace of an object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +required
	Patch string `json:"patch"`
}

// PatchTarget selects objects.
type PatchTarget struct {
	// group is the API group; empty is the core group.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
	// kind is the kind, such as Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`
	// name is the name; empty selects all objects of the kind.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
}

// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterAPI says how Cluster API is installed in this cluster and reports what is installed. There is one, named "cluster".
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterapis,singular=clusterapi,scope=Cluster,categories=capi-operator
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Current",type=string,JSONPath=`.status.currentVersion`,description="The version that is completely installed"
// +kubebuilder:printcolumn:name="Desired",type=string,JSONPath=`.status.desiredVersion`,description="The version that should be installed"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.installerMode`,description="Managed, or Paused: report and write nothing"
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Progressing")].message`,description="What is being done and waited for"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="there is one ClusterAPI and its name is 'cluster'"
// +kubebuilder:validation:XValidation:rule="has(self.status) || !has(oldSelf.status)",message="status holds the history of versions and cannot be removed"
// +kubebuilder:metadata:annotations={"include.release.openshift.io/self-managed-high-availability=true","include.release.openshift.io/single-node-developer=true"}
type ClusterAPI struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the administrator wants.
	// +kubebuilder:default={}
	// +optional
	Spec ClusterAPISpec `json:"spec,omitempty"`
	// status is what the installer has decided and done.
	// +optional
	Status ClusterAPIStatus `json:"status,omitempty"`
}

// ClusterAPIList is a list of ClusterAPI.
//
// +kubebuilder:object:root=true
type ClusterAPIList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterAPI `json:"items"`
}

// InstallerMode says whether the installer writes to the cluster.
//
// +kubebuilder:validation:Enum=Managed;Paused
type InstallerMode string

const (
	// Managed means that the installer makes the cluster match the desired version. It is the default.
	Managed InstallerMode = "Managed"
	// Paused means that the installer reports what it would change and writes nothing but its status.
	Paused InstallerMode = "Paused"
)

// ClusterAPISpec is what the administrator wants.
type ClusterAPISpec struct {
	// installerMode says whether the installer writes to the cluster: Managed, or Paused to have it only report.
	// +kubebuilder:default=Managed
	// +optional
	InstallerMode InstallerMode `json:"installerMode,omitempty"`

	// unmanagedCRDs names CustomResourceDefinitions that somebody else manages, such as "clusters.cluster.x-k8s.io".
	// The installer never creates, changes or deletes them, and checks that they are compatible with the providers it installs.
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}$')",message="a CRD is named <plural>.<group>, for example clusters.cluster.x-k8s.io"
	// +optional
	UnmanagedCRDs []string `json:"unmanagedCRDs,omitempty"`

	// imageOverrides replaces or adds operand images, for development, tests and hotfixes.
	// A cluster with an override reports Upgradeable=False.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	ImageOverrides []ImageOverride `json:"imageOverrides,omitempty"`
}

// ImageOverride is one operand image in place of the release's.
type ImageOverride struct {
	// name is the operand's key in images.json, or a new one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// image is the reference to use, by digest.
	// +required
	Image ImageReference `json:"image"`
}

// ImageReference is an image named by its digest: <registry>/<repository>@sha256:<64 hex digits>.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^[][a-zA-Z0-9.:_-]+(/[a-zA-Z0-9._-]+)+(:[a-zA-Z0-9._-]+)?@sha256:[a-f0-9]{64}$')",message="an image is named by digest: <registry>/<repository>@sha256:<64 hex digits>; a tag can change"
type ImageReference string

// Digest is a SHA-256 digest: sha256:<64 hex digits>.
//
// +kubebuilder:validation:MaxLength=71
// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[a-f0-9]{64}$')",message="a digest is sha256:<64 hex digits>"
type Digest string

// ClusterAPIStatus is what the installer has decided and done.
//
// +kubebuilder:validation:XValidation:rule="!has(self.currentVersion) || (has(self.versions) && self.versions.exists(v, v.name == self.currentVersion))",message="currentVersion names an entry of versions"
// +kubebuilder:validation:XValidation:rule="!has(self.desiredVersion) || (has(self.versions) && self.versions.exists(v, v.name == self.desiredVersion))",message="desiredVersion names an entry of versions"
// +kubebuilder:validation:XValidation:rule="has(self.versions) || !has(oldSelf.versions)",message="versions cannot be removed: the newest one keeps revision numbers from being used again"
type ClusterAPIStatus struct {
	// observedGeneration is the generation of spec that the status answers.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// currentVersion is the version that was last installed completely.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`

	// desiredVersion is the version that should be installed.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DesiredVersion string `json:"desiredVersion,omitempty"`

	// versions are the current version, the desired one, and those between them that are still being removed, oldest first.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(w, w.revision == v.revision))",message="two versions never share a revision number"
	// +kubebuilder:validation:XValidation:rule="self.all(v, oldSelf.exists(w, w.name == v.name) || oldSelf.all(w, w.revision < v.revision))",message="a new version has a higher revision number than all before it"
	// +kubebuilder:validation:XValidation:rule="oldSelf.all(v, self.exists(w, w.revision >= v.revision))",message="the newest version stays, so that its revision number is never used again"
	// +optional
	Versions []Version `json:"versions,omitempty"`

	// conditions are the same as on the ClusterOperator, so that they can be read where that API does not exist.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Version is one set of providers, as decided at one time. It never changes, but for what phases says of its installation.
//
// +kubebuilder:validation:XValidation:rule="self.revision == oldSelf.revision && self.contentID == oldSelf.contentID && self.manifestsDigest == oldSelf.manifestsDigest && self.components == oldSelf.components",message="a version never changes; a new one is made instead"
// +kubebuilder:validation:XValidation:rule="has(self.unmanagedCRDs) == has(oldSelf.unmanagedCRDs) && (!has(self.unmanagedCRDs) || self.unmanagedCRDs == oldSelf.unmanagedCRDs)",message="a version's unmanagedCRDs never change; a new version is made instead"
// +kubebuilder:validation:XValidation:rule="has(self.installedAs) == has(oldSelf.installedAs) && (!has(self.installedAs) || self.installedAs == oldSelf.installedAs)",message="what a version is installed as never changes"
// +kubebuilder:validation:XValidation:rule="self.name.matches('-[1-9][0-9]{0,17}$') && int(self.name.substring(self.name.lastIndexOf('-') + 1)) == self.revision",message="a version is named <release version>-<revision number>"
type Version struct {
	// name is <release version>-<revision number>. The revision ConfigMap has it too, as its name and as the value of a label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="a version's name is the name of a ConfigMap: lower case letters, digits, '-' and '.', and begins and ends with a letter or a digit"
	// +required
	Name string `json:"name"`

	// revision is the number of the version. It grows and is never used again.
	// +kubebuilder:validation:Minimum=1
	// +required
	Revision int64 `json:"revision"`

	// installedAs is the version as which the objects are installed, where that is not this one: a version that was made from
	// other inputs and has the same objects takes them over without a write.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	InstalledAs string `json:"installedAs,omitempty"`

	// contentID identifies what the version was made from: providers, contents, images and variables.
	// +required
	ContentID Digest `json:"contentID"`

	// manifestsDigest is the digest of the rendered objects as stored in the revision ConfigMap.
	// +required
	ManifestsDigest Digest `json:"manifestsDigest"`

	// unmanagedCRDs is spec.unmanagedCRDs as it was when the version was made.
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	UnmanagedCRDs []string `json:"unmanagedCRDs,omitempty"`

	// components are the providers of the version, in the order in which they are installed.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +required
	Components []Component `json:"components"`

	// phases say how far the installation of the version, or its removal, has come: one entry for each step, in order.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=160
	// +optional
	Phases []Phase `json:"phases,omitempty"`
}

// PhaseState says where a phase stands.
//
// +kubebuilder:validation:Enum=Pending;Progressing;Blocked;Complete;Removing
type PhaseState string

const (
	// PhasePending means that a phase before this one is not complete; this one was not looked at.
	PhasePending PhaseState = "Pending"
	// PhaseProgressing means that objects of the phase are being applied, or are not ready yet.
	PhaseProgressing PhaseState = "Progressing"
	// PhaseBlocked means that somebody must do something before the phase can go on; waitingFor and the condition InstallerDegraded say what.
	PhaseBlocked PhaseState = "Blocked"
	// PhaseComplete means that every object of the phase is there and ready.
	PhaseComplete PhaseState = "Complete"
	// PhaseRemoving means that the objects of the phase are being removed.
	PhaseRemoving PhaseState = "Removing"
)

// Phase is one step of installing a version: a component's CRDs, its other objects, or the preflight checks of unmanaged CRDs.
//
// +kubebuilder:validation:XValidation:rule="self.ready <= self.objects",message="no more objects are ready than there are"
type Phase struct {
	// name is "preflight", "<component>-crds" or "<component>".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// state says where the phase stands.
	// +required
	State PhaseState `json:"state"`

	// since is when the phase came into its state.
	// +required
	Since metav1.Time `json:"since"`

	// objects is how many objects the phase has or, while they are being removed, how many are left.
	// +kubebuilder:validation:Minimum=0
	// +required
	Objects int32 `json:"objects"`

	// ready is how many of them are as they should be. It is 0 while the phase is Pending.
	// +kubebuilder:validation:Minimum=0
	// +required
	Ready int32 `json:"ready"`

	// waitingFor names objects that hold the phase up, five at most.
	// +listType=map
	// +listMapKey=object
	// +kubebuilder:validation:MaxItems=5
	// +optional
	WaitingFor []Waiting `json:"waitingFor,omitempty"`
}

// Waiting is an object that holds a phase up.
type Waiting struct {
	// object is the kind, namespace and name, such as "Deployment openshift-cluster-api/capi-controller-manager".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Object string `json:"object"`

	// message is what is missing.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// since is when the object was first found to hold the phase up.
	// +required
	Since metav1.Time `json:"since"`
}

// Component is one provider of a version.
//
// +kubebuilder:validation:XValidation:rule="has(self.image) != has(self.configMaps)",message="a component comes either from an image or from configMaps"
type Component struct {
	// name is the provider's name, such as cluster-api-provider-aws.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// type is the provider's type.
	// +kubebuilder:validation:Enum=core;bootstrap;controlplane;infrastructure;ipam;addon;runtimeextension
	// +required
	Type string `json:"type"`

	// version is the provider's own version, such as v2.10.0.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Version string `json:"version,omitempty"`

	// contentID is the digest of the provider's manifests as it ships them.
	// +required
	ContentID Digest `json:"contentID"`

	// source is the image's key in images.json, or the name of the bundle in the transport ConfigMaps.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Source string `json:"source,omitempty"`

	// overridden says that the image is that of spec.imageOverrides and not the release's.
	// +optional
	Overridden bool `json:"overridden,omitempty"`

	// image is the payload image that the manifests come from.
	// +optional
	Image ImageReference `json:"image,omitempty"`

	// configMaps are the transport ConfigMaps that the manifests come from, in order.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	ConfigMaps []string `json:"configMaps,omitempty"`
}

// Version returns the version with that name, or nil.
func (s *ClusterAPIStatus) Version(name string) *Version {
	for i := range s.Versions {
		if s.Versions[i].Name == name {
			return &s.Versions[i]
		}
	}
	return nil
}

// Settled says whether the desired version is the one that is installed.
func (s *ClusterAPIStatus) Settled() bool {
	return s.DesiredVersion != "" && s.CurrentVersion == s.DesiredVersion
}

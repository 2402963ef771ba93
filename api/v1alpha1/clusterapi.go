// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ClusterAPI configures the installation of Cluster API in this cluster and reports its state. The only object is named "cluster".
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterapis,singular=clusterapi,scope=Cluster,categories=capi-operator
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Current",type=string,JSONPath=`.status.currentVersion`,description="The version that is completely installed"
// +kubebuilder:printcolumn:name="Desired",type=string,JSONPath=`.status.desiredVersion`,description="The version that should be installed"
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`
// +kubebuilder:printcolumn:name="Mode",type=string,priority=1,JSONPath=`.spec.installerMode`,description="Managed, or Paused: report and write nothing"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,description="The gravest message of the conditions"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="ClusterAPI is a singleton: metadata.name must be 'cluster'"
// +kubebuilder:validation:XValidation:rule="has(self.status) || !has(oldSelf.status)",message="status cannot be removed: it contains the history of versions"
// +kubebuilder:metadata:annotations={"capability.openshift.io/name=ClusterAPI","exclude.release.openshift.io/internal-openshift-hosted=true","include.release.openshift.io/self-managed-high-availability=true","include.release.openshift.io/single-node-developer=true","release.openshift.io/feature-gate=ClusterAPIMachineManagement"}
type ClusterAPI struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired configuration.
	// +kubebuilder:default={}
	// +optional
	Spec ClusterAPISpec `json:"spec,omitempty"`
	// status is the observed state.
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

// InstallerMode controls writes of the installer to the cluster.
//
// +kubebuilder:validation:Enum=Managed;Paused
type InstallerMode string

const (
	// Managed rolls out the desired version and reverts drift. It is the default.
	Managed InstallerMode = "Managed"
	// Paused reports pending changes and writes only the status.
	Paused InstallerMode = "Paused"
)

// ClusterAPISpec is the desired configuration.
type ClusterAPISpec struct {
	// installerMode controls writes of the installer to the cluster: Managed rolls out versions and reverts drift, Paused only reports.
	// +kubebuilder:default=Managed
	// +optional
	InstallerMode InstallerMode `json:"installerMode,omitempty"`

	// unmanagedCRDs lists CustomResourceDefinitions that another actor manages, such as "clusters.cluster.x-k8s.io".
	// The installer never creates, modifies or deletes them, and checks that they are compatible with the providers that it installs.
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}$')",message="must be the name of a CRD: <plural>.<group>, for example clusters.cluster.x-k8s.io"
	// +optional
	UnmanagedCRDs []string `json:"unmanagedCRDs,omitempty"`

	// imageOverrides replaces or adds images of images.json, for development, tests and hotfixes.
	// A cluster with an override reports Upgradeable=False.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	ImageOverrides []ImageOverride `json:"imageOverrides,omitempty"`

	// placement applies to the Deployments of all components, for example to run them on infrastructure nodes.
	// +optional
	Placement *Placement `json:"placement,omitempty"`

	// components are settings of single components. A setting that cannot be applied stops the rollout of a new version, and the
	// installed version stays.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Components []ComponentSettings `json:"components,omitempty"`

	// driftPolicy limits the changes of other actors that the installer reverts. It takes effect at once and does not affect upgrades of the cluster.
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitzero"`

	// acceptedRisks are risks that stop a release before its first object is written unless they are accepted. InstallerDegraded names them.
	// Each is accepted for one release only.
	// +listType=map
	// +listMapKey=name
	// +listMapKey=release
	// +kubebuilder:validation:MaxItems=32
	// +optional
	AcceptedRisks []AcceptedRisk `json:"acceptedRisks,omitempty"`
}

// Risk is the name of a risk of a release.
//
// +kubebuilder:validation:Enum=BreakingCRDChange;SkippedVersions;UncalledRuntimeHook;UnsupportedContract
type Risk string

const (
	// BreakingCRDChange means that a CRD with instances changes so that instances are rejected or lose values.
	BreakingCRDChange Risk = "BreakingCRDChange"
	// SkippedVersions means that the upgrade of a provider of Cluster API skips more than three minor versions.
	SkippedVersions Risk = "SkippedVersions"
	// UncalledRuntimeHook means that Cluster API would no longer call a handler of a registered Runtime Extension.
	UncalledRuntimeHook Risk = "UncalledRuntimeHook"
	// UnsupportedContract means that a provider implements no contract that the core provider supports.
	UnsupportedContract Risk = "UnsupportedContract"
)

// AcceptedRisk is a risk that an administrator accepts for a release.
type AcceptedRisk struct {
	// name is the name of the risk.
	// +required
	Name Risk `json:"name"`
	// release is the release version, such as 4.22.0.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Release string `json:"release"`
}

// DriftPolicy limits the changes of other actors that the installer reverts.
type DriftPolicy struct {
	// ignoredFields lists fields of installed objects that are left to other actors, such as the replicas that an autoscaler sets.
	// The installer writes their values only when it creates the object. InstallerProgressing names the objects.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	IgnoredFields []IgnoredFields `json:"ignoredFields,omitempty"`
}

// IgnoredFields are fields of an object that are left to other actors.
type IgnoredFields struct {
	// group is the API group of the object; empty for the core group.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
	// kind is the kind of the object, such as Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`
	// name is the name of the object. If there are objects with this name in several namespaces, all are meant.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// fields are JSON pointers, such as /spec/replicas or /metadata/annotations/example.com~1note. An index selects an item of a list in
	// the manifest; in the cluster, the item with the same name is meant if the item has a name.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^(/([^/~]|~[01])+)+$')",message="must be a JSON pointer, such as /spec/replicas"
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('^/(apiVersion|kind|status)(/|$)')",message="must not be a part of apiVersion, kind or status"
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('^/metadata(/|$)') || self.matches('^/metadata/(labels|annotations)/[^/]+$')",message="of the metadata, only single labels and annotations can be ignored, such as /metadata/annotations/example.com~1note"
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('^/metadata/(labels|annotations)/(app[.]kubernetes[.]io~1managed-by$|capi-operator[.]openshift[.]io~1)')",message="the labels and annotations of the installer cannot be ignored"
	// +required
	Fields []string `json:"fields"`
}

// Matches reports whether an object is meant.
func (f IgnoredFields) Matches(kind schema.GroupKind, name string) bool {
	return f.Group == kind.Group && f.Kind == kind.Kind && f.Name == name
}

// Target names the object.
func (f IgnoredFields) Target() string {
	return schema.GroupKind{Group: f.Group, Kind: f.Kind}.String() + " " + f.Name
}

// Tokens returns the names of fields and the indexes in a JSON pointer.
func Tokens(pointer string) []string {
	tokens := strings.Split(pointer, "/")[1:]
	for i := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(tokens[i])
	}
	return tokens
}

// ImageOverride is an image that replaces, or is added to, the images of the release.
type ImageOverride struct {
	// name is a key of images.json, or a new key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// image is the image reference by digest.
	// +required
	Image ImageReference `json:"image"`
}

// ImageReference is an image reference by digest: <registry>/<repository>@sha256:<64 hex digits>.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^[][a-zA-Z0-9.:_-]+(/[a-zA-Z0-9._-]+)+(:[a-zA-Z0-9._-]+)?@sha256:[a-f0-9]{64}$')",message="must be an image reference by digest: <registry>/<repository>@sha256:<64 hex digits>; tags are mutable"
type ImageReference string

// Digest is a SHA-256 digest: sha256:<64 hex digits>.
//
// +kubebuilder:validation:MaxLength=71
// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[a-f0-9]{64}$')",message="must be a SHA-256 digest: sha256:<64 hex digits>"
type Digest string

// ObservedRelease identifies an images.json.
type ObservedRelease struct {
	// version is the content of the file release-version next to images.json; the release of the program without that file.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Version string `json:"version,omitempty"`
	// imagesDigest is the SHA-256 of images.json.
	// +required
	ImagesDigest Digest `json:"imagesDigest"`
	// platform is the platform that the installer was started with, or several, separated by commas; empty if the cluster's
	// configuration names it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Platform string `json:"platform,omitempty"`
}

// ObservedInput is an object that determines the desired version, beside the spec and the release.
type ObservedInput struct {
	// group is the API group of the object; empty for the core group. Its API version is v1.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
	// kind is the kind of the object.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`
	// namespace is the namespace of the object; empty if it is cluster-scoped.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the object.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// resourceVersion is the version that the installer has read; empty if the object did not exist.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// ClusterAPIStatus is the observed state.
//
// +kubebuilder:validation:XValidation:rule="!has(self.currentVersion) || (has(self.versions) && self.versions.exists(v, v.name == self.currentVersion))",message="currentVersion must name an entry of versions"
// +kubebuilder:validation:XValidation:rule="!has(self.desiredVersion) || (has(self.versions) && self.versions.exists(v, v.name == self.desiredVersion))",message="desiredVersion must name an entry of versions"
// +kubebuilder:validation:XValidation:rule="has(self.versions) || !has(oldSelf.versions)",message="versions cannot be removed: the newest one prevents the reuse of revision numbers"
type ClusterAPIStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// observedRelease identifies the images.json that the installer has read last. Until it equals the release that
	// was requested, the rest of the status describes an earlier one.
	// +optional
	ObservedRelease *ObservedRelease `json:"observedRelease,omitempty"`

	// observedInputs are the other objects that the installer has read last: Secrets and ConfigMaps that spec.components refers to,
	// and OpenShift's configuration. Until they are current, the rest of the status describes earlier ones.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	// +optional
	ObservedInputs []ObservedInput `json:"observedInputs,omitempty"`

	// observedBy is the process that wrote the status last, as the holder of the installer's Lease; empty without a Lease.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ObservedBy string `json:"observedBy,omitempty"`

	// message is the message of the condition that needs most attention: of an error, else of an unavailable version, of a
	// rollout in progress, or of the cause that prevents an upgrade. It is empty if there is none.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Message string `json:"message,omitempty"`

	// currentVersion is the version that was last installed completely.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`

	// installedRelease is the release that is completely installed, as the ClusterOperator reports it. During an upgrade it is the
	// former release.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	InstalledRelease string `json:"installedRelease,omitempty"`

	// desiredVersion is the version that should be installed.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DesiredVersion string `json:"desiredVersion,omitempty"`

	// versions are the current version, the desired version, and the versions between them that are still being torn down, oldest first.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(w, w.revision == v.revision))",message="revision numbers must be unique"
	// +kubebuilder:validation:XValidation:rule="self.all(v, oldSelf.exists(w, w.name == v.name) || oldSelf.all(w, w.revision < v.revision))",message="the revision number of a new version must be higher than all others"
	// +kubebuilder:validation:XValidation:rule="oldSelf.all(v, self.exists(w, w.revision >= v.revision))",message="the newest version cannot be removed: it prevents the reuse of its revision number"
	// +optional
	Versions []Version `json:"versions,omitempty"`

	// signatureVerdicts are the verdicts of the signature policies on the images of the desired and the current version,
	// at the last check.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +optional
	SignatureVerdicts []SignatureVerdict `json:"signatureVerdicts,omitempty"`

	// conditions equal the conditions of the ClusterOperator, for clusters without the ClusterOperator
	// API.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Version is a set of components. Only its phases change.
//
// +kubebuilder:validation:XValidation:rule="self.revision == oldSelf.revision && self.contentID == oldSelf.contentID && self.manifestsDigest == oldSelf.manifestsDigest && self.components == oldSelf.components",message="a version is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.unmanagedCRDs) == has(oldSelf.unmanagedCRDs) && (!has(self.unmanagedCRDs) || self.unmanagedCRDs == oldSelf.unmanagedCRDs)",message="unmanagedCRDs of a version is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.installedAs) == has(oldSelf.installedAs) && (!has(self.installedAs) || self.installedAs == oldSelf.installedAs)",message="installedAs of a version is immutable"
// +kubebuilder:validation:XValidation:rule="self.name.matches('-[1-9][0-9]{0,17}$') && int(self.name.substring(self.name.lastIndexOf('-') + 1)) == self.revision",message="the name of a version must be <release version>-<revision number>"
type Version struct {
	// name is <release version>-<revision number>. It is also the name and a label value of the revision ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a valid name of a ConfigMap: lower case letters, digits, '-' and '.'; it must start and end with a letter or a digit"
	// +required
	Name string `json:"name"`

	// revision is the number of the version. It increases and is never reused.
	// +kubebuilder:validation:Minimum=1
	// +required
	Revision int64 `json:"revision"`

	// installedAs is the version that owns the installed objects, if it is not this one. It is set if this version
	// was created from other inputs but has the same objects, so that no object is written. Components with another
	// owner name it.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	InstalledAs string `json:"installedAs,omitempty"`

	// contentID identifies the inputs of the version: providers, manifests, images and variables.
	// +required
	ContentID Digest `json:"contentID"`

	// manifestsDigest is the digest of the rendered objects as stored in the revision ConfigMap.
	// +required
	ManifestsDigest Digest `json:"manifestsDigest"`

	// unmanagedCRDs lists the CRDs in spec.unmanagedCRDs and in OpenShift's own ClusterAPI object at the time when the version was
	// created.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	UnmanagedCRDs []string `json:"unmanagedCRDs,omitempty"`

	// components are the bundles of the version, in install order.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +required
	Components []Component `json:"components"`

	// phases report the progress of the rollout or teardown, in order.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=160
	// +optional
	Phases []Phase `json:"phases,omitempty"`
}

// PhaseState is the state of a phase.
//
// +kubebuilder:validation:Enum=Pending;Progressing;Blocked;Complete;Removing
type PhaseState string

const (
	// PhasePending means that an earlier phase is not complete, so that this phase was
	// not reconciled.
	PhasePending PhaseState = "Pending"
	// PhaseProgressing means that objects of the phase are being applied or are not ready.
	PhaseProgressing PhaseState = "Progressing"
	// PhaseBlocked means that the phase requires an action of an administrator; see waitingFor and the condition InstallerDegraded.
	PhaseBlocked PhaseState = "Blocked"
	// PhaseComplete means that every object of the phase exists and is ready.
	PhaseComplete PhaseState = "Complete"
	// PhaseRemoving means that the objects of the phase are being deleted.
	PhaseRemoving PhaseState = "Removing"
)

// Phase is one step of a rollout: a component's CRDs, its other objects, or the preflight checks of unmanaged CRDs.
//
// +kubebuilder:validation:XValidation:rule="self.ready <= self.objects",message="ready must not exceed objects"
type Phase struct {
	// name is "preflight", "<component>-crds" or "<component>".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// state is the state of the phase.
	// +required
	State PhaseState `json:"state"`

	// since is the time of the last change of the state.
	// +required
	Since metav1.Time `json:"since"`

	// objects is the number of objects of the phase. During a teardown, it is the number of
	// objects that still exist.
	// +kubebuilder:validation:Minimum=0
	// +required
	Objects int32 `json:"objects"`

	// ready is the number of objects that are ready. It is 0 while the phase is Pending.
	// +kubebuilder:validation:Minimum=0
	// +required
	Ready int32 `json:"ready"`

	// waitingFor lists objects that are not ready, at most five.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +optional
	WaitingFor []Waiting `json:"waitingFor,omitempty"`
}

// Waiting is an object that a phase waits for.
type Waiting struct {
	// object is the kind, namespace and name, such as "Deployment openshift-cluster-api/capi-controller-manager".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Object string `json:"object"`

	// message describes the missing condition.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// since is the time when the phase began to wait for the object.
	// +required
	Since metav1.Time `json:"since"`
}

// Component is a bundle that was selected into a version.
//
// +kubebuilder:validation:XValidation:rule="has(self.image) != has(self.configMaps)",message="exactly one of image and configMaps must be set"
type Component struct {
	// name is the provider's name, such as cluster-api-provider-aws.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// type is the provider's type; empty for a bundle that is not a provider, such as admission policies of an operator.
	// +kubebuilder:validation:Enum=core;bootstrap;controlplane;infrastructure;ipam;addon;runtimeextension
	// +optional
	Type string `json:"type,omitempty"`

	// version is the provider's own version, such as v2.10.0.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Version string `json:"version,omitempty"`

	// contentID is the digest of the manifests in the bundle.
	// +required
	ContentID Digest `json:"contentID"`

	// source is the image's key in images.json, or the name of the bundle in the transport ConfigMaps.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Source string `json:"source,omitempty"`

	// overridden is true if the image comes from spec.imageOverrides.
	// +optional
	Overridden bool `json:"overridden,omitempty"`

	// image is the payload image that contains the manifests.
	// +optional
	Image ImageReference `json:"image,omitempty"`

	// settings names the settings in spec.placement and spec.components that are rendered into the component, such as
	// "featureGates[ClusterTopology]".
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	Settings []string `json:"settings,omitempty"`

	// profile distinguishes the bundles of an image with several.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Profile string `json:"profile,omitempty"`

	// configMaps are the transport ConfigMaps that contain the manifests, in order.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	ConfigMaps []string `json:"configMaps,omitempty"`

	// installedAs is the version that first rendered exactly these objects, if it is not this one. The objects name it as their
	// owner: a version with an unchanged component writes none of its objects.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	InstalledAs string `json:"installedAs,omitempty"`
}

// Verdict is the result of a signature policy for an image.
//
// +kubebuilder:validation:Enum=Accepted;Rejected;Undecided;NotEnforced
type Verdict string

const (
	// VerdictAccepted means that the image has the required signatures.
	VerdictAccepted Verdict = "Accepted"
	// VerdictRejected means that the policy does not accept the image. Its content is not used for a new version.
	VerdictRejected Verdict = "Rejected"
	// VerdictUndecided means that the policy or the signatures could not be read.
	VerdictUndecided Verdict = "Undecided"
	// VerdictNotEnforced means that there is no policy, or that it accepts every image of the scope.
	VerdictNotEnforced Verdict = "NotEnforced"
)

// SignatureVerdict is the verdict of the signature policies on an image.
type SignatureVerdict struct {
	// image is the payload image of a component.
	// +required
	Image ImageReference `json:"image"`

	// verdict is the result.
	// +required
	Verdict Verdict `json:"verdict"`

	// policy is the name of the policy; empty if there is none.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Policy string `json:"policy,omitempty"`

	// scope is the most specific scope of the policy that contains the image.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Scope string `json:"scope,omitempty"`
}

// Version returns the version with a name, or nil.
func (s *ClusterAPIStatus) Version(name string) *Version {
	for i := range s.Versions {
		if s.Versions[i].Name == name {
			return &s.Versions[i]
		}
	}
	return nil
}

// Settled reports whether the desired version is installed.
func (s *ClusterAPIStatus) Settled() bool {
	return s.DesiredVersion != "" && s.CurrentVersion == s.DesiredVersion
}

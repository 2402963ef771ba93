// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Prefix stands before every label, annotation, field owner and finalizer that
// the installer writes, and is its API group.
const Prefix = "capi-operator.openshift.io"

// Where the installer lives and what it reports on.
const (
	// ClusterAPIName is the name of the only ClusterAPI object.
	ClusterAPIName = "cluster"
	// ClusterOperatorName is the ClusterOperator the installer reports on.
	ClusterOperatorName = "cluster-api"
	// OperatorNamespace holds the installer and its revision ConfigMaps.
	OperatorNamespace = "openshift-cluster-api-operator"
	// OperandNamespace holds the providers and the transport ConfigMaps.
	OperandNamespace = "openshift-cluster-api"
	// ServiceAccountName is the installer's identity in OperatorNamespace.
	ServiceAccountName = "capi-installer"
)

// What the installer writes on objects.
const (
	// FieldOwner is the manager of every field the installer applies.
	FieldOwner = Prefix
	// OwnersAnnotation lists the revision ConfigMaps that own an object.
	OwnersAnnotation = Prefix + "/owners"
	// RevisionLabel marks a revision ConfigMap; its value is the version's name.
	RevisionLabel = Prefix + "/revision"
	// RevisionAnnotation, on an installed object, is the number of the revision that it was last applied for.
	RevisionAnnotation = Prefix + "/revision"
	// RevisionPartLabel marks a ConfigMap that continues a revision ConfigMap; its value is the version's name.
	RevisionPartLabel = Prefix + "/revision-part"
	// ManifestsDigestAnnotation, on a revision ConfigMap, is the digest of the stored rendered set.
	ManifestsDigestAnnotation = Prefix + "/manifests-digest"
	// PartsAnnotation, on a revision ConfigMap, is the number of ConfigMaps that hold the set, itself included.
	PartsAnnotation = Prefix + "/parts"
	// InstalledAsAnnotation, on a revision ConfigMap, is the version as which its objects are installed, if that is another one.
	InstalledAsAnnotation = Prefix + "/installed-as"
	// ElsewhereAnnotation, on a revision ConfigMap, notes by digest of the release's images that hold nothing for the
	// cluster's platform which platforms they are for.
	ElsewhereAnnotation = Prefix + "/elsewhere"
	// TeardownFinalizer keeps a revision ConfigMap until its objects are gone.
	TeardownFinalizer = Prefix + "/teardown"
	// AdoptAnnotation, with the value AdoptAlways, lets the installer take over an
	// object that exists already. In a provider's manifest it does so whoever
	// controls the object; on the object in the cluster, only if nobody does. The
	// installer writes it on CRDs that it leaves behind because they have instances.
	AdoptAnnotation = Prefix + "/adopt-existing"
	// AdoptAlways is the one value of AdoptAnnotation with a meaning.
	AdoptAlways = "always"
)

// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// ClusterProfile is the kind of cluster that a bundle is built for. It
// implements pflag.Value.
type ClusterProfile string

// The cluster profiles.
const (
	// OpenShift is the zero value. Bundles depend on OpenShift's service-ca, namespaces and security context
	// constraints.
	OpenShift ClusterProfile = ""
	// Kubernetes is any cluster. Bundles depend on the installer for
	// certificates.
	Kubernetes ClusterProfile = "kubernetes"
)

const nameOfOpenShift = "openshift"

// ClusterProfileNames returns the names of the profiles.
func ClusterProfileNames() []string { return []string{nameOfOpenShift, string(Kubernetes)} }

// String returns the name of the profile.
func (p *ClusterProfile) String() string { return cmp.Or(string(*p), nameOfOpenShift) }

// Set implements pflag.Value.
func (p *ClusterProfile) Set(name string) error {
	if !slices.Contains(ClusterProfileNames(), name) {
		return fmt.Errorf("must be one of %s", strings.Join(ClusterProfileNames(), ", "))
	}
	if *p = ClusterProfile(name); name == nameOfOpenShift {
		*p = OpenShift
	}
	return nil
}

// Namespaces returns the default namespaces of an installation in such a cluster.
func (p ClusterProfile) Namespaces() v1alpha1.Namespaces {
	if p == Kubernetes {
		return v1alpha1.KubernetesNamespaces
	}
	return v1alpha1.OpenShiftNamespaces
}

// Type implements pflag.Value.
func (p *ClusterProfile) Type() string { return "profile" }

// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

// installerCA are the annotations of the CA of the installer, see package install/servingcert.
var installerCA = authority{name: "the installer", serving: v1alpha1.ServingCertAnnotation, inject: v1alpha1.InjectCABundleAnnotation}

var certManagerToInstallerCA = Transform{
	Name:    "cert-manager-to-installer-ca",
	Does:    "Replaces cert-manager objects by annotations that make the installer issue the serving certificates and write its CA into webhooks.",
	Why:     "A new Kubernetes cluster has no cert-manager: its kinds are unknown, and the serving certificates of webhooks would not be issued. Without this transform, cert-manager must be installed first, and the installer needs permissions for its kinds.",
	Profile: only(extractor.Kubernetes),
	Apply:   installerCA.replaceCertManager,
}

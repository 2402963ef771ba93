// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// serviceCA are the annotations of OpenShift's service-ca operator.
var serviceCA = authority{
	name:    "service-ca",
	serving: object.ServiceCAServingCert,
	inject:  object.ServiceCAInject,
}

var certManagerToServiceCA = Transform{
	Name:    "cert-manager-to-service-ca",
	Does:    "Replaces cert-manager objects by annotations that make OpenShift's service-ca operator issue the serving certificates and inject their CA.",
	Why:     "OpenShift has no cert-manager: the serving certificates of webhooks would not be issued, and their pods would wait for the Secrets forever.",
	Profile: only(extractor.OpenShift),
	Apply:   serviceCA.replaceCertManager,
}

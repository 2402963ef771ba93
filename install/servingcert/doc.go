// SPDX-License-Identifier: Apache-2.0

// Package servingcert is the certificate authority of the installer, for clusters without
// OpenShift's service-ca and without cert-manager: it issues the serving certificates of
// webhooks and writes its CA into the objects that refer to them. Bundles request both
// with annotations. docs/adr/0008-serving-certificates.md has the reasons.
package servingcert

// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

// A bundle of an operator has no type and no version. Its account, and Secrets, come with the manifests of the release.
const operatorBundle = `apiVersion: apps/v1
kind: Deployment
metadata: {name: controllers, namespace: openshift-cluster-api}
spec:
  selector: {matchLabels: {app: controllers}}
  template:
    metadata: {labels: {app: controllers}}
    spec:
      serviceAccountName: controllers
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: controllers
        image: registry.ci.openshift.org/openshift:example-operator
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        resources: {requests: {cpu: 10m, memory: 50Mi}}
        terminationMessagePolicy: FallbackToLogsOnError
`

func TestCheck_OperatorIsNotAProvider(t *testing.T) {
	bundle := extractor.Bundle{Profile: "default", Manifests: []byte(operatorBundle), Metadata: extractor.Metadata{
		ProviderName: "example-operator", ImageName: "registry.ci.openshift.org/openshift:example-operator", InstallOrder: 30,
	}}
	for _, finding := range contract.Check(bundle, All()) {
		if finding.Severity == contract.Error || finding.Rule == "metadata/provider-version-semver" || finding.Rule == "clusterctl/provider-label" {
			t.Errorf("finding about a bundle that is not a provider: %+v", finding)
		}
	}
	bundle.Metadata.ProviderType = extractor.Addon
	found := map[string]bool{}
	for _, finding := range contract.Check(bundle, All()) {
		found[finding.Rule] = true
	}
	for _, id := range []string{"metadata/provider-version-semver", "clusterctl/provider-label", "clusterctl/manager-container", "bundle/serviceaccount-exists"} {
		if !found[id] {
			t.Errorf("no finding of %s about a provider", id)
		}
	}
}

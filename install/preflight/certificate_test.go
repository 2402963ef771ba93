// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

func TestCheck_SecretOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	const service = "{apiVersion: v1, kind: Service, metadata: {name: webhook, namespace: capi, annotations: {capi-operator.openshift.io/serving-cert-secret-name: cert}}}"
	for name, test := range map[string]struct {
		secret  string // its metadata
		desired string
		want    []string
	}{
		"none":       {desired: service},
		"ours":       {secret: "labels: {capi-operator.openshift.io/serving-cert-of: webhook}", desired: service},
		"of another": {secret: "managedFields: [{manager: me}]", desired: service, want: []string{"Secret capi/cert (written by me) has the certificate of Service webhook, which the installer issues; to have it do so: kubectl delete --namespace=capi secret/cert"}},
		"of cert-manager": {secret: "annotations: {cert-manager.io/certificate-name: serving}", desired: service,
			want: []string{"Secret capi/cert (no owner) has the certificate of Service webhook, which the installer issues; to have it do so: kubectl delete --namespace=capi certificate.cert-manager.io/serving secret/cert"}},
		"a Service without certificate": {secret: "annotations: {}", desired: "{apiVersion: v1, kind: Service, metadata: {name: webhook, namespace: capi}}"},
	} {
		c := &cluster{}
		if test.secret != "" {
			c.objects = append(c.objects, read(t, "{apiVersion: v1, kind: Secret, metadata: {name: cert, namespace: capi, "+test.secret+"}}"))
		}
		found, err := Check(t.Context(), c, Release{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Phases: []revision.Phase{{Name: "x", Objects: []*unstructured.Unstructured{read(t, test.desired)}}}})
		var got []string
		for _, finding := range found {
			got = append(got, finding.Message)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s:\n got %q, %v\nwant %q", name, got, err, test.want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/collision"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/internal/object"
)

// certificateName is the annotation with which cert-manager names the Certificate of a Secret.
const certificateName = "cert-manager.io/certificate-name"

// certificate adds a finding if the object is a Service for which the installer is going to issue a certificate, and its Secret belongs to
// others. It cannot be adopted: cert-manager would write it again.
func (j judged) certificate(ctx context.Context, cluster Cluster) judged {
	name := j.desired.GetAnnotations()[v1alpha1.ServingCertAnnotation]
	if name == "" || object.GroupKind(j.desired) != object.Service {
		return j
	}
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(object.Secret.Kind))
	like.SetNamespace(j.desired.GetNamespace())
	like.SetName(name)
	secret, err := cluster.Read(ctx, like)
	if err != nil || secret == nil || secret.GetLabels()[v1alpha1.ServingCertLabel] != "" {
		j.err = errors.Join(j.err, err)
		return j
	}
	command := "kubectl delete --namespace=" + secret.GetNamespace()
	if creator := secret.GetAnnotations()[certificateName]; creator != "" {
		command += " certificate.cert-manager.io/" + creator // first: it would create the Secret again
	}
	command += " secret/" + name
	j.findings = append(j.findings, Finding{Reason: reason.Collision, Message: fmt.Sprintf("%s (%s) has the certificate of Service %s, which the installer issues; to have it do so: %s",
		object.Describe(secret), collision.OwnerOf(secret), j.desired.GetName(), command)})
	return j
}

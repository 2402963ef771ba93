// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"context"
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitAllowed waits until the API server allows a request. A new binding takes effect only when the API server's own
// watches have delivered it and its role.
func (c *Cluster) AwaitAllowed(tb testing.TB, request authorizationv1.SubjectAccessReviewSpec) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	allowed := func(ctx context.Context) error {
		review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authorizationv1.SubjectAccessReview{Spec: request}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			return fmt.Errorf("user %s is not allowed: %s", request.User, review.Status.Reason)
		}
		return err
	}
	if err := c.await(ctx, "kube-apiserver", allowed); err != nil {
		tb.Fatalf("waiting for a permission: %v", withTail(err, false))
	}
}

// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build/contract"
)

// Preview returns the object as it would be after an apply by a field manager, from a dry run. The object is nil unless the answer is
// contract.Accepted.
func (c *Cluster) Preview(ctx context.Context, desired *unstructured.Unstructured, manager string) (*unstructured.Unstructured, contract.Answer, error) {
	resource, err := c.resource(desired)
	if err != nil {
		answer, err := c.toAnswer(ctx, desired, err)
		return nil, answer, err
	}
	options := metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: manager, Force: true}
	result, err := resource.Apply(ctx, desired.GetName(), desired, options)
	if err != nil {
		answer, err := c.toAnswer(ctx, desired, err)
		return nil, answer, err
	}
	return result, contract.Answer{}, nil
}

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
	result, err := c.Apply(ctx, desired, manager)
	if err != nil {
		answer, err := c.toAnswer(ctx, desired, err)
		return nil, answer, err
	}
	return result, contract.Answer{}, nil
}

// Apply returns the object as it would be after an apply by a field manager, from a dry run. An error is the answer of the API server.
func (c *Cluster) Apply(ctx context.Context, desired *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	resource, err := c.resources.of(desired)
	if err != nil {
		return nil, err
	}
	return resource.Apply(ctx, desired.GetName(), desired, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: manager, Force: true})
}

// Create returns the answer of the API server to a create by a field manager, from a dry run.
func (c *Cluster) Create(ctx context.Context, desired *unstructured.Unstructured, manager string) error {
	resource, err := c.resources.of(desired)
	if err != nil {
		return err
	}
	_, err = resource.Create(ctx, desired, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: manager})
	return err
}

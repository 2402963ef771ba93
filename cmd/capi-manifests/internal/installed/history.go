// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

// Stored is a version with its objects, as its revision ConfigMaps store them.
type Stored struct {
	Namespace, Name string
	// Created is the creation time of the revision ConfigMap.
	Created metav1.Time
	Set     operand.Set
}

// Versions reads the stored versions of a cluster, oldest first. Errors are of type *AccessError; those
// about an invalid ConfigMap wrap a *revision.Error.
func (c *Cluster) Versions(ctx context.Context) ([]Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.findNamespace(ctx); err != nil {
		return nil, err
	}
	// The parts of a version are found by name; other ConfigMaps in the namespace
	// are small.
	list, err := c.objects.Resource(configMaps).Namespace(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.failed(configMaps, c.Namespace, err)
	}
	all, err := Decode[corev1.ConfigMap](pointers(list.Items)...)
	if err != nil {
		return nil, err
	}
	versions, err := VersionsIn(all)
	if err != nil {
		step := "delete the ConfigMap if it is corrupted; the installer recreates it"
		return nil, &AccessError{Subject: "API server " + c.config.Host, Err: err, Permanent: true, NextStep: step}
	}
	return versions, nil
}

// VersionsIn decodes the versions in ConfigMaps, in the order of their revision numbers.
func VersionsIn(all []corev1.ConfigMap) (versions []Stored, err error) {
	numbers := map[string]int64{}
	for i := range all {
		name := all[i].Labels[v1alpha1.RevisionLabel]
		if name == "" || name != all[i].Name {
			continue
		}
		if numbers[name], err = revision.Number(name); err != nil {
			return nil, err
		}
		stored, err := revision.FromConfigMaps(name, all)
		if err != nil {
			return nil, err
		}
		set, err := stored.Decode()
		if err != nil {
			return nil, err
		}
		versions = append(versions, Stored{Namespace: all[i].Namespace, Name: name, Created: all[i].CreationTimestamp, Set: set})
	}
	slices.SortFunc(versions, func(a, b Stored) int { return int(numbers[a.Name] - numbers[b.Name]) })
	return versions, nil
}

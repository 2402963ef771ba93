// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// coreInstances are an instance of each kind of the core provider, and the CRDs of the infrastructure that they refer to.
//
//go:embed coreinstances.yaml
var coreInstances []byte

// coreAPIs is a client of an instance of every kind of the core provider, in the version that both releases serve. Each request reads,
// patches or applies one of them.
type coreAPIs struct {
	client    client.Client
	instances []*unstructured.Unstructured
}

// Availability describes the requests of a client of the core provider's APIs during a rollout.
type Availability struct {
	// Release describes the rollout.
	Release string
	// Requests is the number of requests, and Failed the number of failed ones by kind of request.
	Requests int
	Failed   map[string]int
	// Outage is the time from the first failed request to the last.
	Outage time.Duration
	// Lost are the entries of managedFields that instances have lost.
	Lost []string
	// Error is the first failure.
	Error string
}

// String returns the row of a table.
func (a Availability) String() string {
	failed := 0
	var verbs []string
	for _, verb := range slices.Sorted(maps.Keys(a.Failed)) {
		failed += a.Failed[verb]
		verbs = append(verbs, fmt.Sprintf("%d %s", a.Failed[verb], verb))
	}
	row := fmt.Sprintf("| %s | %d | %d | %.1f s | %d |", a.Release, a.Requests, failed, a.Outage.Seconds(), len(a.Lost))
	if failed > 0 {
		row += " " + strings.Join(verbs, ", ") + "; the first: " + a.Error
	}
	if len(a.Lost) > 0 {
		row += " lost: " + strings.Join(a.Lost[:min(3, len(a.Lost))], ", ")
	}
	return row
}

// newCoreAPIs creates an instance of each kind, with two owners of fields.
func (j *Journey) newCoreAPIs(ctx context.Context) (*coreAPIs, error) {
	objects, err := yamldoc.Objects(coreInstances)
	if err != nil {
		return nil, err
	}
	c := &coreAPIs{client: j.client}
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			o.SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": ""})
			c.instances = append(c.instances, o)
		}
		// The webhooks of a provider that was just installed may need a moment.
		if err := awaitFor(ctx, time.Minute, o.GetKind()+" is created", func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(j.client.Create(ctx, o.DeepCopy(), client.FieldOwner("creator")))
		}); err != nil {
			return nil, err
		}
	}
	for _, o := range c.instances {
		if err := c.apply(ctx, o, "0"); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// during observes the client while do runs, and for a while after it: old pods end after the new ones are ready.
func (c *coreAPIs) during(ctx context.Context, release string, do func() error) (Availability, error) {
	before, err := c.owners(ctx)
	if err != nil {
		return Availability{}, err
	}
	requests := startTraffic(ctx, c.request)
	failed := do()
	time.Sleep(15 * time.Second)
	requests.stop()
	result := Availability{Release: release, Requests: requests.requests, Failed: requests.failed, Outage: requests.outage}
	if requests.first.err != nil {
		result.Error = requests.first.err.Error()
	}
	if after, err := c.owners(ctx); err != nil {
		result.Lost = append(result.Lost, "unknown: "+err.Error())
	} else {
		for _, owner := range slices.Sorted(maps.Keys(before)) {
			if !after[owner] {
				result.Lost = append(result.Lost, owner)
			}
		}
	}
	return result, failed
}

// request sends the nth request.
func (c *coreAPIs) request(ctx context.Context, n int) (verb string, err error) {
	o := c.instances[n%len(c.instances)]
	switch n / len(c.instances) % 3 {
	case 0:
		verb, err = "reads", c.client.Get(ctx, client.ObjectKeyFromObject(o), like(o))
	case 1:
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/patched":"%d"}}}`, n)
		verb, err = "patches", c.client.Patch(ctx, like(o), client.RawPatch(types.MergePatchType, patch), client.FieldOwner("patcher"))
	default:
		verb, err = "applies", c.apply(ctx, o, fmt.Sprint(n))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", o.GetKind(), err)
	}
	return verb, err
}

// like returns an object with the kind and name of another.
func like(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(o.GroupVersionKind())
	out.SetNamespace(o.GetNamespace())
	out.SetName(o.GetName())
	return out
}

func (c *coreAPIs) apply(ctx context.Context, o *unstructured.Unstructured, value string) error {
	applied := like(o)
	applied.SetLabels(map[string]string{"example.com/applied": value})
	return c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("applier"), client.ForceOwnership)
}

// applyIn applies an annotation to each instance in the version in which the API server stores it, so that its managedFields have entries of two versions.
func (c *coreAPIs) applyIn(ctx context.Context, version string) error {
	for _, o := range c.instances {
		applied := like(o)
		applied.SetAPIVersion(o.GroupVersionKind().Group + "/" + version)
		applied.SetAnnotations(map[string]string{"example.com/newer": "yes"})
		if err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("newer")); err != nil {
			return fmt.Errorf("applying %s in %s: %w", o.GetKind(), version, err)
		}
	}
	return nil
}

// owners returns the entries of managedFields of all instances.
func (c *coreAPIs) owners(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	for _, o := range c.instances {
		found := like(o)
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(o), found); err != nil {
			return nil, err
		}
		for _, entry := range found.GetManagedFields() {
			if entry.Operation == metav1.ManagedFieldsOperationApply || entry.Manager == "creator" {
				out[fmt.Sprintf("%s of %s (%s)", entry.Manager, o.GetKind(), entry.Operation)] = true
			}
		}
	}
	return out, nil
}

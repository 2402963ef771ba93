// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/capi-installer/capi-installer/build/contract"
)

// small is a server with a handler that blocks, and one that adds an annotation to every template.
func small(annotation func() string, message func() string) []server.ExtensionHandler {
	timeout, policy := int32(5), hooksv1.FailurePolicyIgnore
	return []server.ExtensionHandler{{
		Hook: hooksv1.BeforeClusterUpgrade, Name: "quota", TimeoutSeconds: &timeout, FailurePolicy: &policy,
		HandlerFunc: func(_ context.Context, _ *hooksv1.BeforeClusterUpgradeRequest, response *hooksv1.BeforeClusterUpgradeResponse) {
			response.SetStatus(hooksv1.ResponseStatusSuccess)
			response.SetMessage(message())
			response.SetRetryAfterSeconds(30)
		},
	}, {
		Hook: hooksv1.GeneratePatches, Name: "annotate",
		HandlerFunc: func(_ context.Context, request *hooksv1.GeneratePatchesRequest, response *hooksv1.GeneratePatchesResponse) {
			for _, item := range request.Items {
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/owner":%q}}}`, annotation())
				response.Items = append(response.Items, hooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: hooksv1.JSONMergePatchType, Patch: []byte(patch)})
			}
			response.SetStatus(hooksv1.ResponseStatusSuccess)
		},
	}}
}

func constant(text string) func() string { return func() string { return text } }

func TestSmallServer_Conforms(t *testing.T) {
	// The handler returns the patch for a template that already has the annotation, too: it has no effect.
	want := []string(nil)
	if found := findings(t, start(t, small(constant("team-a"), constant("the quota is exhausted"))...), contract.Warning); !slices.Equal(found, want) {
		t.Errorf("findings %q, want %q", found, want)
	}
}

func TestSmallServer_CountersAreFound(t *testing.T) {
	var calls atomic.Int64
	counter := func() string { return fmt.Sprintf("call %d", calls.Add(1)) }
	found := findings(t, start(t, small(counter, counter)...), contract.Warning)
	for _, want := range []string{"patches/deterministic GeneratePatches annotate", "patches/order GeneratePatches annotate", "call/deterministic BeforeClusterUpgrade quota"} {
		if !slices.Contains(found, want) {
			t.Errorf("findings %q, want %q", found, want)
		}
	}
}

// The update of a machine proceeds between the calls.
func TestSmallServer_ProgressIsNoFinding(t *testing.T) {
	var calls atomic.Int64
	update := server.ExtensionHandler{
		Hook: hooksv1.UpdateMachine, Name: "update",
		HandlerFunc: func(_ context.Context, request *hooksv1.UpdateMachineRequest, response *hooksv1.UpdateMachineResponse) {
			response.SetStatus(hooksv1.ResponseStatusSuccess)
			if request.Desired.Machine.Spec.ProviderID == "" {
				response.SetStatus(hooksv1.ResponseStatusFailure)
				response.SetMessage("spec.providerID is required")
				return
			}
			response.SetMessage("the update is complete")
			if step := calls.Add(1); step < 5 {
				response.SetMessage(fmt.Sprintf("step %d of the update", step))
				response.SetRetryAfterSeconds(30)
			}
		},
	}
	if found := findings(t, start(t, update), contract.Info); len(found) > 0 {
		t.Errorf("findings %q, want none", found)
	}
}

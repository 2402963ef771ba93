// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"fmt"
	"maps"
	"strings"
)

// noRepository releases the installed digest under a repository that lacks it. The installer has its bundle in the cache.
func (j *Journey) noRepository(ctx context.Context) error {
	broken := release{version: "1.6.0", images: maps.Clone(j.current.images)}
	name, digest, _ := strings.Cut(broken.images["core"], "@")
	broken.images["core"] = name + "-missing@" + digest
	return j.goBack(ctx, broken, "ImagePull")
}

// unschedulable rolls out a release whose core provider has a pod that fits on no node.
func (j *Journey) unschedulable(ctx context.Context) error {
	return j.goBackFrom(ctx, "1.7.0", `[{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"no": "such-node"}}]`, "Unschedulable")
}

// podNotAdmitted rolls out a release whose core provider has a pod with an unknown priority class.
func (j *Journey) podNotAdmitted(ctx context.Context) error {
	return j.goBackFrom(ctx, "1.5.0", `[{"op": "add", "path": "/spec/template/spec/priorityClassName", "value": "missing"}]`, "no PriorityClass with name missing")
}

// goBackFrom is goBack for a release with a patch of the core provider's Deployment.
func (j *Journey) goBackFrom(ctx context.Context, version, patch, cause string) error {
	broken, err := j.makeRelease(ctx, version, variation{key: "core", patch: patch})
	if err != nil {
		return err
	}
	return j.goBack(ctx, broken, cause)
}

// shows returns an error unless status shows a text.
func (j *Journey) shows(ctx context.Context, text string) error {
	shown, err := j.tool(ctx, "status")
	if !strings.Contains(shown, text) {
		return fmt.Errorf("status: %w\n%s", err, shown)
	}
	return nil
}

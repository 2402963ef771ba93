// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package policy

import (
	"context"
	"errors"
	"fmt"

	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
)

const supported = true

func validate(data []byte) error {
	_, err := signature.NewPolicyFromBytes(data)
	return err
}

// Evaluate returns nil if the policy accepts an image. The error is a *RejectedError if it does not; with any other
// error, the policy was not evaluated. The signatures of the image are read before.
func (p *Policy) Evaluate(ctx context.Context, image types.UnparsedImage) (err error) {
	parsed, err := signature.NewPolicyFromBytes(p.data)
	if err != nil {
		return fmt.Errorf("parsing the signature policy %s: %w", p.name, err)
	}
	evaluation, err := signature.NewPolicyContext(parsed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, evaluation.Destroy()) }()
	allowed, err := evaluation.IsRunningImageAllowed(ctx, image)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if allowed && err == nil {
		return nil
	}
	return &RejectedError{Reason: fmt.Sprint(err)}
}

// SPDX-License-Identifier: Apache-2.0

//go:build !containers_image_openpgp

package policy

import (
	"context"

	"go.podman.io/image/v5/types"
)

const supported = false

func validate([]byte) error { return ErrUnsupported }

// Evaluate returns ErrUnsupported.
func (p *Policy) Evaluate(context.Context, types.UnparsedImage) error { return ErrUnsupported }

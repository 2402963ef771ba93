// SPDX-License-Identifier: Apache-2.0

//go:build !containers_image_openpgp

package policy

import "context"

const supported = false

func validate([]byte) error { return ErrUnsupported }

// Evaluate returns ErrUnsupported.
func (p *Policy) Evaluate(context.Context, Image) error { return ErrUnsupported }

// Check returns ErrUnsupported.
func (s Signature) Check(context.Context) error { return ErrUnsupported }

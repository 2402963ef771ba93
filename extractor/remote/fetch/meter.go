// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"sync/atomic"
)

// Meter counts requests and received bytes, for example for a progress bar. It is safe for concurrent use.
type Meter struct {
	// Requests is the number of responses, including those for tokens.
	Requests atomic.Int64
	// Received is the number of bytes read from bodies.
	Received atomic.Int64
	// Size is the size of the image in bytes, according to its manifest; 0 until known.
	Size atomic.Int64
}

type meterKey struct{}

// WithMeter returns a context whose requests m counts.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// MeterOf returns the meter of a context, or an unused one.
func MeterOf(ctx context.Context) *Meter {
	if m, ok := ctx.Value(meterKey{}).(*Meter); ok {
		return m
	}
	return &Meter{}
}

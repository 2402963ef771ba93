// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"sync/atomic"
)

// Meter counts what was asked for and what came, for a progress bar for example.
// It is safe for use by many goroutines at once.
type Meter struct {
	// Requests are the requests that were answered, those for tokens too.
	Requests atomic.Int64
	// Received are the bytes of bodies, as far as they were read.
	Received atomic.Int64
	// Size is the size of the whole image in bytes, as its manifest says; 0 until that is known.
	Size atomic.Int64
}

type meterKey struct{}

// WithMeter returns a context whose pulls a meter counts.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// MeterOf returns the meter of a context; one that nobody reads if it has none.
func MeterOf(ctx context.Context) *Meter {
	if m, ok := ctx.Value(meterKey{}).(*Meter); ok {
		return m
	}
	return &Meter{}
}

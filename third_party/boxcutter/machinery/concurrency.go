// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/internal/bounded"
)

// iteration configures how a phase iterates over its objects.
type iteration struct {
	// limit is the maximum number of objects of one kind that are handled
	// concurrently.
	limit int
	// aggregate handles all objects and joins their errors.
	aggregate bool
}

// stops reports whether an error ends the iteration. If errors are aggregated, only
// "too many requests" does.
func (p iteration) stops(err error) bool { return !p.aggregate || apierrors.IsTooManyRequests(err) }

// forEach calls do for each item, and done for each result in order. Consecutive items
// of the same known kind are handled concurrently, up to the limit.
func forEach[T, R any](
	items []T, iteration iteration, kind func(T) schema.GroupVersionKind, done func(T, R), do func(T) (R, error),
) error {
	var errs []error
	for stopped := false; len(items) > 0 && !stopped; {
		size := batchSize(items, iteration.limit, kind)
		for i, outcome := range bounded.Do(items[:size], iteration.limit, iteration.stops, do) {
			if outcome.Err == nil {
				done(items[i], outcome.Result)
				continue
			}
			errs = append(errs, outcome.Err)
			stopped = stopped || iteration.stops(outcome.Err)
		}
		items = items[size:]
	}
	return join(errs)
}

// batchSize returns the number of items at the start that may be handled concurrently.
func batchSize[T any](items []T, limit int, kind func(T) schema.GroupVersionKind) int {
	first, size := kind(items[0]), 1
	for limit > 1 && !first.Empty() && size < len(items) && kind(items[size]) == first {
		size++
	}
	return size
}

// join joins errors and returns a single error unchanged.
func join(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

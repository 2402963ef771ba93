// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/internal/bounded"
)

// pace is how a phase walks through its objects.
type pace struct {
	// limit is how many are done at the same time, if they are of the same kind.
	limit int
	// aggregate has all of them tried, and their errors joined.
	aggregate bool
}

// stops says whether an error ends the walk. When errors are aggregated, only
// "too many requests" does.
func (p pace) stops(err error) bool { return !p.aggregate || apierrors.IsTooManyRequests(err) }

// each does something with each item, in order, and reports what comes of it to
// done, in order. Neighbours of the same kind may be done at the same time; those
// of a kind that is not known may not.
func each[T, R any](
	items []T, pace pace, kind func(T) schema.GroupVersionKind, done func(T, R), do func(T) (R, error),
) error {
	var errs []error
	for stopped := false; len(items) > 0 && !stopped; {
		size := neighbours(items, pace.limit, kind)
		for i, outcome := range bounded.Do(items[:size], pace.limit, pace.stops, do) {
			if outcome.Err == nil {
				done(items[i], outcome.Result)
				continue
			}
			errs = append(errs, outcome.Err)
			stopped = stopped || pace.stops(outcome.Err)
		}
		items = items[size:]
	}
	return join(errs)
}

// neighbours is how many items, from the first one on, may be done at the same time.
func neighbours[T any](items []T, limit int, kind func(T) schema.GroupVersionKind) int {
	first, size := kind(items[0]), 1
	for limit > 1 && !first.Empty() && size < len(items) && kind(items[size]) == first {
		size++
	}
	return size
}

// join joins errors, but leaves a single one as it is.
func join(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

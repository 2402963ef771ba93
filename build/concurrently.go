// SPDX-License-Identifier: Apache-2.0

package build

import (
	"errors"
	"sync"
)

// concurrently returns what one makes of each item, in the order of the items. It
// takes all of them, and returns all errors.
func concurrently[Item, Made any](items []Item, one func(Item) (Made, error)) ([]Made, error) {
	all, errs := make([]Made, len(items)), make([]error, len(items))
	var group sync.WaitGroup
	for i, item := range items {
		group.Go(func() { all[i], errs[i] = one(item) })
	}
	group.Wait()
	return all, errors.Join(errs...)
}

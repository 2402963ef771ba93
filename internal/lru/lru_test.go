// SPDX-License-Identifier: Apache-2.0

package lru

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The model is a list of (key, weight) pairs, the most recently used one last.
func TestCache_MatchesAModel(t *testing.T) {
	type pair struct {
		key    int
		weight int64
	}
	const limit = 100
	var c Cache[int, int64]
	var list []pair
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		p := pair{random.IntN(20), int64(random.IntN(120))}
		at := slices.IndexFunc(list, func(q pair) bool { return q.key == p.key })
		if random.IntN(2) == 0 {
			got, found := c.Get(p.key)
			if found != (at >= 0) || found && got != list[at].weight {
				t.Fatalf("Get(%d) is %d, %v; the list is %v", p.key, got, found, list)
			}
			if found {
				list = append(slices.Delete(slices.Clone(list), at, at+1), list[at])
			}
			continue
		}
		c.Add(p.key, p.weight, p.weight, limit)
		if at >= 0 {
			list = slices.Delete(list, at, at+1)
		}
		if p.weight > limit {
			continue
		}
		list = append(list, p)
		for sum := int64(limit + 1); sum > limit; {
			sum = 0
			for _, q := range list {
				sum += q.weight
			}
			if sum > limit {
				list = list[1:]
			}
		}
	}
}

func ExampleCache() {
	var c Cache[string, []byte]
	c.Add("a", []byte("aaaa"), 4, 10)
	c.Add("b", []byte("bbbb"), 4, 10)
	c.Add("c", []byte("cccc"), 4, 10) // evicts a
	_, found := c.Get("a")
	fmt.Println(found)
	// Output: false
}

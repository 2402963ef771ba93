// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"

	"github.com/capi-installer/capi-installer/build/contract"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// asks reports whether a rule of a webhook or policy matches one of the operations on a resource; any operation if there are none.
func asks(rules contract.Value, resource schema.GroupResource, operations ...string) bool {
	covers := func(list contract.Value, text string) bool {
		return contract.Contains(list, "*") || contract.Contains(list, text)
	}
	for _, rule := range rules.Items() {
		if covers(rule.At("apiGroups"), resource.Group) && covers(rule.At("resources"), resource.Resource) &&
			(len(operations) == 0 || slices.ContainsFunc(operations, func(operation string) bool { return covers(rule.At("operations"), operation) })) {
			return true
		}
	}
	return false
}

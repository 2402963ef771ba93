// SPDX-License-Identifier: Apache-2.0

// Package rbacrule matches RBAC rules against requests and against each other, as the
// RBAC authorizer of Kubernetes does (k8s.io/kubernetes/pkg/apis/rbac/v1,
// evaluation_helpers.go).
package rbacrule

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Covers reports whether a list of a rule, such as its verbs or API groups,
// contains a value or the wildcard.
func Covers(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, rbacv1.VerbAll)
}

// CoversResource reports whether a resource in a rule, such as "pods", "*" or
// "*/scale", covers a requested one, such as "pods/scale".
func CoversResource(resource, requested string) bool {
	_, subresource, isSub := strings.Cut(requested, "/")
	return resource == rbacv1.ResourceAll || resource == requested || isSub && resource == rbacv1.ResourceAll+"/"+subresource
}

// CoversName reports whether the resourceNames of a rule cover the name of an
// object. An empty name means a request without a name, such as create or list,
// which only a rule without resourceNames covers.
func CoversName(resourceNames []string, name string) bool {
	return len(resourceNames) == 0 || name != "" && slices.Contains(resourceNames, name)
}

// CoversURL reports whether a non-resource URL in a rule covers the URL of a
// request.
func CoversURL(url, requested string) bool {
	prefix, open := strings.CutSuffix(url, rbacv1.NonResourceAll)
	return url == requested || open && requested != "" && strings.HasPrefix(requested, prefix)
}

// Allows reports whether a rule allows a verb on every object of a resource.
func Allows(rule rbacv1.PolicyRule, group, resource, verb string) bool {
	return Covers(rule.APIGroups, group) && Covers(rule.Verbs, verb) && CoversName(rule.ResourceNames, "") &&
		slices.ContainsFunc(rule.Resources, func(r string) bool { return CoversResource(r, resource) })
}

// SPDX-License-Identifier: Apache-2.0

package object

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// applyOrder lists kinds in apply order: an object comes after its dependencies.
// Kinds that are not listed have the rank of the nil entry.
//
// An admission policy precedes its binding: until the policy exists, the API
// server rejects the binding unless the user may read every resource. Webhooks
// come last, because a webhook that is registered before its Deployment is
// available rejects all objects that are applied after it.
var applyOrder = [][]schema.GroupKind{
	{Namespace},
	{CustomResourceDefinition},
	{ServiceAccount},
	{ClusterRole, Role},
	{ClusterRoleBinding, RoleBinding},
	{ConfigMap, Secret},
	{Service},
	{ValidatingAdmissionPolicy, MutatingAdmissionPolicy},
	{ValidatingAdmissionPolicyBinding, MutatingAdmissionPolicyBinding},
	nil,
	{
		Pod, {Kind: "PodTemplate"}, {Kind: "ReplicationController"},
		Deployment, DaemonSet, StatefulSet, ReplicaSet, Job, CronJob,
	},
	{ValidatingWebhookConfiguration, MutatingWebhookConfiguration, APIService},
}

var ranks, rankOfOthers = indexRanks()

func indexRanks() (byKind map[schema.GroupKind]int, others int) {
	byKind = map[schema.GroupKind]int{}
	for rank, kinds := range applyOrder {
		if kinds == nil {
			others = rank
		}
		for _, kind := range kinds {
			byKind[kind] = rank
		}
	}
	return byKind, others
}

// Rank returns the position of a kind in the apply order. Objects of a lower rank
// are applied first. Objects of the same rank do not depend on each other.
func Rank(kind schema.GroupKind) int {
	if rank, found := ranks[kind]; found {
		return rank
	}
	return rankOfOthers
}

// CompareRank compares two objects only by rank, so that a stable sort keeps the
// order of the manifests within a rank.
func CompareRank[O Object](a, b O) int {
	return cmp.Compare(Rank(GroupKind(a)), Rank(GroupKind(b)))
}

// Compare compares two objects by rank, then by group, kind, namespace and name. It
// is a total order of objects with different identities.
func Compare[O Object](a, b O) int {
	first, second := IdentityOf(a), IdentityOf(b)
	return cmp.Or(
		cmp.Compare(Rank(first.GroupKind), Rank(second.GroupKind)),
		strings.Compare(first.Group, second.Group),
		strings.Compare(first.Kind, second.Kind),
		strings.Compare(first.Namespace, second.Namespace),
		strings.Compare(first.Name, second.Name),
	)
}

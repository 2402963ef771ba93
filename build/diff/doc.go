// SPDX-License-Identifier: Apache-2.0

// Package diff compares two sets of providers and reports the changes that a reviewer
// of an upgrade needs to see. It performs no I/O.
//
// Objects are compared field by field, list items by their keys. Four kinds are
// compared by their meaning:
//
//   - CRDs: whether existing objects stay valid and complete, and clients keep working;
//     each property is checked with the validations of sigs.k8s.io/crdify;
//   - roles and bindings: the effective permissions of each subject, as sets of verb,
//     group, resource and name;
//   - webhooks: the requests that they match, and their failure policy;
//   - images of workloads.
//
// Changes of no interest to a reviewer are folded: the report marks them and counts
// them in one line.
package diff

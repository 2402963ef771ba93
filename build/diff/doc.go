// SPDX-License-Identifier: Apache-2.0

// Package diff tells what changed between two sets of providers, for those who
// decide whether the second may replace the first. It is pure: values in, values out.
//
// Objects are compared field by field, the items of lists by their keys. Four
// kinds of objects are compared by what they mean:
//
//   - CRDs: whether objects that exist stay valid and whole, and clients keep working;
//     each property with the validations of sigs.k8s.io/crdify;
//   - roles and bindings: what each subject may do in the end, as sets of verb, group,
//     resource and name;
//   - webhooks: which requests they are asked about, and what happens if they are down;
//   - the images of workloads.
//
// What says nothing to a reviewer is folded: it stays in the report, marked, and
// is counted in a line.
package diff

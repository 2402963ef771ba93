// SPDX-License-Identifier: Apache-2.0

// Package lifecyclehook is a Runtime Extension of the installer: it delays the creation and the upgrade of Clusters
// with topology while providers are rolled out or unavailable.
//
//	ClusterAPI status --Read--> State --State.Blocker--> Blocker --Decide--> Decision --Handler--> Cluster API
//
// Registration maintains the ExtensionConfig that leads Cluster API to the Server. docs/adr/0009-lifecycle-hooks.md has
// the reasons.
package lifecyclehook

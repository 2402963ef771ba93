// SPDX-License-Identifier: Apache-2.0

// Package order proves the order of events: it runs the real controllers against a real API server, and decides which of their requests and watch
// events comes next.
//
// # A schedule
//
// A schedule begins with the installation of a release, or in the state that such an installation has left. One transaction writes this state to etcd
// (server_test.go), so neither an installation nor an uninstall lies between two schedules. Then the program starts with another release.
//
// It runs in a bubble of testing/synctest, with the clock of the bubble: no back-off and no lease takes time. The transport of the manager
// (process_test.go) holds each request until the scheduler (scheduler_test.go) lets it pass, and each watch event until the scheduler delivers it.
// The scheduler moves when all goroutines of the bubble wait. Outside of the bubble, a mirror (server_test.go) watches etcd, which has one order of all
// changes. The API server answers all requests, and a step ends when the mirror has what etcd had after the answer; so the order of the steps is a
// function of the schedule. Two things are not: the jitter of polls, and the order in which the program reads a map.
//
// A schedule is a list of moves. Without moves, the steps pass in the order in which they began to wait. A move delays some of the actors that wait,
// makes a fault, or is an action of another actor. Its place is a tick: one tick is before each write of the process, and one after it, so that a seed
// need not guess where something can happen. A seed decides on the moves, often with two close to each other. A failing schedule is shrunk: moves go
// while it still fails.
//
// # Requests that are no steps
//
// Discovery, OpenAPI, the lists of informers and access reviews are answered at once. Informers list at the resource version of the last change or,
// after a crash with stale lists, at an earlier one; the mirror is the source of their watch events. An informer that has lost an event lists again when
// nothing else happens. Kubernetes Events are recorded, and not sent.
//
// # Which bugs it finds
//
// Seeded bugs of test/mutants, each with the forty schedules of the seeds from 2000 on, without a hint: the number of those that fail. In all but
// the first two, two actors act in an order that the program does not choose.
//
//	previous-owner-stays                                    10 of the first ten
//	written-phase-skipped                                    7
//	phases-rolled-out-at-once (kubelet)                     in the installation before them
//	adopted-deployment-stopped (removal of a version)       10 of the first ten
//	clusterapi-from-cache (informers)                        9 of the first ten
//	snapshot-from-cache (informers, restart)                 9 of the first ten
//	storage-switched-before-pods (kubelet)                  18
//	foreign-fields-stay (another manager writes the CA)     17
//	stored-version-dropped (clients of the old version)     10
//	structure-kept (foreign manager)                        10
//	unseen-generation-observed (user changes the spec)       8
//	instances-not-rewritten (clients of the old version)     5
//	released-before-ready (kubelet)                          5
//	restored-fields-stay (user restores a backup)            5
//	adopt-annotation-stays (user, former owner)              4
//	superseded-objects-resurrected (two versions, user)      4
//	changed-object-skipped (user)                            3
//	clusteroperator-from-older-read (two controllers)        3
//	unmanaged-crd-is-installed (user)                        3
//	status-before-configmap (two controllers)                2
//
// TestReplays finds adoption-of-another-object-finished, instance-permission-stays, replaced-configmap-recreated, replaced-version-adopts-crd,
// restore-before-apply, retained-crd-not-migrated and snapshot-from-cache.
//
// It does not find in forty schedules: deleted-object-skipped, unmanaged-ignored; nor with this or an earlier generator: apply-creates-deleted-object,
// configmaps-from-cache, crd-deleted-without-check, crd-deleted-without-policy, crds-shrink-before-pods, current-version-reverts-storage,
// deleted-object-installed, fields-of-a-create-stay, finalizers-of-others-removed, foreign-configmap-replaced, hold-decided-on-cache, late-owners-lost,
// late-write-stays, managers-run-during-uninstall (no Deployment has pods), owners-of-dropped-versions, removal-decided-on-cache,
// teardown-forgets-unmanaged. The others were not tried.
//
// # Cost
//
// A schedule has about 400 steps, and costs 1.9 s of CPU time. So an hour of CPU time has room for 1,900 schedules; TestOrder prints these
// figures. Two thirds of the requests are reads.
//
// # Run it
//
//	make order SEED=1 HOURS=2
//	go test ./test/order -run TestReplays -replay '{"From":1,"To":2,"Moves":[{"At":8,"Kind":"uninstall"}]}' -log
//
// The first failing schedule of a run is shrunk, and its steps are printed. Of the others, the violated invariant is printed.
package order

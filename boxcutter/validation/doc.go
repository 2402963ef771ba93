// SPDX-License-Identifier: Apache-2.0

// Package validation finds what is wrong with a revision before any of it is
// written.
//
// RevisionValidator looks at the revision alone. PhaseValidator and
// ObjectValidator ask the API server, by dry-run, whether it would accept the
// objects. What they find comes as a tree of errors:
//
//	RevisionValidationError
//	└── PhaseValidationError
//	    ├── PhaseNameInvalidError
//	    └── ObjectValidationError
//	        ├── *field.Error, PhaseObjectDuplicationError
//	        ├── MustBeNamespaceScopedResourceError, MustBeInNamespaceError
//	        └── DryRunValidationError
//
// Errors of the tree are values, and errors.As finds each of them from the top.
// An error outside of the tree says that validation could not be done, and that
// it is worth to try again.
package validation

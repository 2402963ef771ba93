// SPDX-License-Identifier: Apache-2.0

// Package validation checks revisions before any object is written.
//
// RevisionValidator checks the revision alone. PhaseValidator and ObjectValidator
// ask the API server with dry runs. Findings form a tree of errors:
//
//	*RevisionValidationError
//	└── *PhaseValidationError
//	    ├── PhaseNameInvalidError
//	    └── *ObjectValidationError
//	        ├── *field.Error, PhaseObjectDuplicationError
//	        ├── MustBeNamespaceScopedResourceError, MustBeInNamespaceError
//	        └── DryRunValidationError
//
// errors.As finds each of them from the top. Any other error means that the
// validation was not possible and is worth a retry.
package validation

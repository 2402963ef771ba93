// SPDX-License-Identifier: Apache-2.0

// Package validation checks revisions before any object is written.
//
// RevisionValidator checks the revision without the API server. PhaseValidator
// and ObjectValidator send dry runs to the API server. Findings form a tree of
// errors:
//
//	*RevisionValidationError
//	└── *PhaseValidationError
//	    ├── PhaseNameInvalidError
//	    └── *ObjectValidationError
//	        ├── *field.Error, PhaseObjectDuplicationError
//	        ├── MustBeNamespaceScopedResourceError, MustBeInNamespaceError
//	        └── DryRunValidationError
//
// errors.As finds each of them. Any other error means that the validation failed
// and should be retried.
package validation

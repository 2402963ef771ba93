// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"

	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CreateCollisionError reports that an object to be created already exists,
// although the engine's reader did not find it.
type CreateCollisionError struct {
	object client.Object
	msg    string
}

// NewCreateCollisionError returns the error for an object, with a message about the
// collision.
func NewCreateCollisionError(obj client.Object, msg string) *CreateCollisionError {
	return &CreateCollisionError{object: obj, msg: msg}
}

// Object returns the object that was to be created.
func (e CreateCollisionError) Object() client.Object { return e.object }

// Error names the object and describes the collision.
func (e CreateCollisionError) Error() string {
	return fmt.Sprintf("%s: %s", types.ToObjectRef(e.object), e.msg)
}

// UnsupportedApplyConfigurationError reports an object that cannot be applied
// because it is neither unstructured nor an apply configuration. An apply of a typed
// object would take ownership of every field without omitempty.
type UnsupportedApplyConfigurationError struct {
	object Object
}

// NewUnsupportedApplyConfigurationError returns the error for an object.
func NewUnsupportedApplyConfigurationError(obj Object) *UnsupportedApplyConfigurationError {
	return &UnsupportedApplyConfigurationError{object: obj}
}

// Error names the object and its Go type.
func (e UnsupportedApplyConfigurationError) Error() string {
	return fmt.Sprintf("%s: unsupported type %T for server-side apply: use unstructured objects or apply configurations",
		types.ToObjectRef(e.object), e.object)
}

// MisuseError reports an invalid argument of an engine call.
type MisuseError struct {
	// Object is the object of the call.
	Object types.ObjectRef
	// Problem describes the invalid argument.
	Problem string
}

// Error names the object and the problem.
func (e *MisuseError) Error() string { return fmt.Sprintf("%s: %s", e.Object, e.Problem) }

func misuse(obj client.Object, format string, args ...any) error {
	return &MisuseError{Object: types.ToObjectRef(obj), Problem: fmt.Sprintf(format, args...)}
}

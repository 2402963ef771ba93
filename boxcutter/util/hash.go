// SPDX-License-Identifier: Apache-2.0

// Package util has what users of the engines need around them: a hash that tells
// whether a revision is new, and results in one line.
package util

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"k8s.io/utils/dump"
)

// ComputeSHA256Hash returns the hash of a value, in hex. Values that hold the same
// have the same hash, whatever pointers they hold it by. collisionCount, if it is
// not nil, leads to another hash of the same value.
func ComputeSHA256Hash(obj any, collisionCount *uint32) string {
	hasher := sha256.New()
	DeepHashObject(hasher, obj)
	if collisionCount != nil {
		var count [4]byte
		binary.LittleEndian.PutUint32(count[:], *collisionCount)
		hasher.Write(count[:])
	}
	return hex.EncodeToString(hasher.Sum(nil))
}

// DeepHashObject resets the hasher and writes a value to it: what pointers point
// to, and maps in the order of their keys.
func DeepHashObject(hasher hash.Hash, objectToWrite any) {
	hasher.Reset()
	fmt.Fprint(hasher, dump.ForHash(objectToWrite))
}

// Package secret reads the small files in which an operator hands secrets to the program, and reads them again when they
// change, so that they are rotated without a restart.
//
// A file that can't be read again, or that nobody can use, changes nothing and is said once (TestReread in package
// signature). Nothing of a file's content stands in an error or in the log.
package secret

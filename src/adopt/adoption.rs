//! Making an adoption.

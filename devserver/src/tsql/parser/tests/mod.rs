//! Tests of the parser.

mod corpus;
mod fixture;

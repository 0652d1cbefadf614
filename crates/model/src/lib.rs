//! Names, ids, messages, field tables and facts: the words every other crate speaks.

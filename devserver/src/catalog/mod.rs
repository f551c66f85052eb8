//! What a database knows: its objects and their names, principals and permissions, and the views that show them.

pub mod cancel;
#[expect(clippy::module_inception, reason = "the folder is the layer, the file has the catalog itself")]
pub mod catalog;
pub mod connections;
pub mod constraint;
pub mod database;
pub mod normal_form;
pub mod object;
pub mod object_name;
pub mod parameter;
pub mod principal;
pub mod release;
pub mod server;
pub mod system_type;
pub mod system_view;
pub mod user_type;
pub mod view;

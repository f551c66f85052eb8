//! What stands around every page.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};

use crate::app::App;
use crate::failure::Failure;
use crate::security::Visitor;

/// The head, the navigation and the foot, as this visitor gets them.
pub struct Frame {
    pub title: String,
    /// The page in the navigation that this one belongs to.
    pub section: &'static str,
    pub visitor: Visitor,
    /// There are buttons.
    pub may_act: bool,
    /// What the action before has done.
    pub notice: Option<String>,
    /// The names of the files with the stylesheet and the script.
    pub assets: &'static crate::assets::Names,
}

impl Frame {
    pub async fn new(app: &App, visitor: Visitor, section: &'static str, title: impl Into<String>) -> Frame {
        let may_act = visitor.may_act && app.readings.login_may_act().await;
        let notice = app.sessions.take_notice(&visitor.session);
        Frame { title: title.into(), section, visitor, may_act, notice, assets: crate::assets::names() }
    }
}

/// A page of a template.
pub fn html(template: &impl Template) -> Result<Response, Failure> {
    match template.render() {
        Ok(text) => Ok(Html(text).into_response()),
        Err(error) => {
            tracing::error!(%error, "a template could not be filled");
            Err(Failure::Internal)
        }
    }
}

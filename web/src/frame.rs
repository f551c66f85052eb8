//! The frame around every page.

use crate::app::App;
use crate::security::visitor::Visitor;

/// Head, navigation and foot, for one visitor.
pub struct Frame {
    pub title: String,
    /// The current entry of the navigation.
    pub section: &'static str,
    pub visitor: Visitor,
    /// Whether to show buttons.
    pub may_act: bool,
    /// The result of the last action.
    pub notice: Option<String>,
    /// The names of the stylesheet and the script.
    pub assets: &'static crate::assets::Names,
}

impl Frame {
    pub async fn new(app: &App, visitor: Visitor, section: &'static str, title: impl Into<String>) -> Frame {
        let may_act = visitor.may_act && app.readings.login_may_act().await;
        let notice = app.sessions.take_notice(&visitor.session);
        Frame { title: title.into(), section, visitor, may_act, notice, assets: crate::assets::names() }
    }
}

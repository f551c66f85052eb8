//! What stands around every page.

use crate::app::App;
use crate::security::visitor::Visitor;

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

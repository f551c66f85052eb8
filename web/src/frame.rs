//! The frame around every page.

use crate::app::App;
use crate::failure::Failure;
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

    /// The frame of a page that is only for acting.
    ///
    /// # Errors
    ///
    /// [`Failure::NotAllowed`] if the visitor may only view.
    pub async fn to_act(
        app: &App,
        visitor: Visitor,
        section: &'static str,
        title: impl Into<String>,
    ) -> Result<Frame, Failure> {
        let frame = Frame::new(app, visitor, section, title).await;
        if frame.may_act { Ok(frame) } else { Err(Failure::NotAllowed) }
    }
}

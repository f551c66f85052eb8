-- Sets the weight of a group in a fair queue: how many jobs it gets in each round (claim_fair). Takes effect with the next
-- claim, also for jobs that wait. Weights stay until they are set again or the queue is deleted, whether the group has
-- jobs or not; a queue that is not fair keeps them unused.
CREATE OR ALTER PROCEDURE [$(schema)].[set_group_weight]
    @queue     nvarchar(129),
    @group_key nvarchar(129),
    @weight    int,  -- 1 to 1000; 1 is the weight of all groups that have none set
    @audit_id  bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @members nvarchar(1000), @own bigint;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @group_key IS NULL OR DATALENGTH(@group_key) = 0 OR DATALENGTH(@group_key) > 256
    OR DATALENGTH(@group_key) <> DATALENGTH(LTRIM(RTRIM(@group_key)))
    EXEC [$(schema)].[refuse] N'group_key', @group_key, N'1 to 128 characters, with no leading or trailing spaces';
EXEC [$(schema)].[check_text] N'group_key', @group_key, 1;
IF @weight IS NULL OR @weight < 1 OR @weight > 1000
    EXEC [$(schema)].[refuse] N'weight', @weight, N'1 to 1000';

SET @members = CONCAT(N',"group_key":"', STRING_ESCAPE(@group_key, 'json'), N'","weight":', @weight);
BEGIN TRANSACTION;
EXEC [$(schema)].[note_action] @audit_id, 'set_group_weight', @queue, @own OUTPUT, @members;
IF @weight = 1
    DELETE [$(schema)].[group_weights] WITH (ROWLOCK) WHERE queue_id = @queue_id AND group_key = @group_key;
ELSE
BEGIN
    UPDATE [$(schema)].[group_weights] WITH (ROWLOCK, UPDLOCK, HOLDLOCK) SET weight = @weight
        WHERE queue_id = @queue_id AND group_key = @group_key;
    IF @@ROWCOUNT = 0
        INSERT [$(schema)].[group_weights] WITH (ROWLOCK) (queue_id, group_key, weight)
            VALUES (@queue_id, @group_key, @weight);
END;
-- As in enqueue: the queue may have been deleted.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
    WHERE queue_id = @queue_id)
    SET @queue_id = (SELECT queue_id
        FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                     WHERE queue_id = @queue_id);
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
COMMIT TRANSACTION;
GO

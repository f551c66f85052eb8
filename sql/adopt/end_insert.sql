    INSERT /*{other}*/ (/*{names}*/)
    SELECT /*{values}*/
    /*{from}*/
    /*{where}*/OPTION (MAXDOP 1, KEEPFIXED PLAN);
